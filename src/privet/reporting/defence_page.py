"""The report page of a comparison of defences: the recommendation, the frontier, and every figure."""

from privet.reporting.charts.defences import defences_chart, defences_chart_height
from privet.reporting.charts.figures import chart_figure
from privet.reporting.defence_choice import (
    choose_defence,
    dominating,
    recommendation,
    recommendation_rule,
)
from privet.reporting.defence_facts import ComparedDefence, ComparisonContent
from privet.reporting.markup import (
    Html,
    bullet_list,
    description_list,
    element,
    join_html,
    paragraph,
    section,
    table,
    text,
)
from privet.reporting.numbers import at_most, count, percent, rate_range
from privet.reporting.whole_page import whole_page

__all__ = ["defence_page"]


def defence_page(comparison: ComparisonContent) -> str:
    """One self-contained HTML file."""
    taken = choose_defence(comparison).taken
    main = [_verdict(comparison), _frontier(comparison), _how(comparison), _reproduce(comparison)]
    return whole_page(comparison.title, f"{comparison.title}: {taken.name}", comparison.origin, main)


def _verdict(comparison: ComparisonContent) -> Html:
    kind = "bounded" if choose_defence(comparison).taken.proved else "within"
    return element(
        "section",
        join_html(
            [
                element("h2", text("Recommendation"), {"class": "unseen-heading", "id": "verdict-heading"}),
                element("p", text(recommendation(comparison)), {"class": "sentence"}),
                paragraph(recommendation_rule(comparison), "note"),
            ]
        ),
        {
            "id": "verdict",
            "class": f"verdict {kind}",
            "tabindex": "-1",
            "aria-labelledby": "verdict-heading",
        },
    )


def _frontier(comparison: ComparisonContent) -> Html:
    fpr = percent(comparison.fpr)
    chart = chart_figure(
        "defences",
        defences_chart(comparison),
        caption=(
            f"Up is more useful, left is harder to attack. Full marks: the most exposed records; empty "
            f"marks: the population; the dotted line joins the two. Members found at {fpr} false alarms, "
            f"with intervals; the dashed line is blind guessing, and what is far left of it is drawn at "
            f"the edge. Diamonds have a proof, circles have none. Grey: another defence is better, clearly "
            f"so on one axis and no worse on the others. On a narrow screen the marks have the numbers of "
            f"the table."
        ),
        description="Test accuracy of each defence over the members found: "
        + "; ".join(_in_words(defence) for defence in comparison.defences)
        + ".",
        height=defences_chart_height(comparison),
        numbers=_intervals(comparison),
    )
    return section("frontier", "Accuracy against what attacks find", [chart, _overview(comparison)])


def _in_words(defence: ComparedDefence) -> str:
    proof = "no proof" if defence.epsilon_proved is None else f"ε at most {at_most(defence.epsilon_proved)}"
    return (
        f"{defence.name}, accuracy {percent(defence.test_accuracy.value)}, found in the population "
        f"{percent(defence.tpr_population.value)}, of the most exposed {percent(defence.tpr_exposed.value)}, "
        f"{proof}"
    )


def _overview(comparison: ComparisonContent) -> Html:
    taken = choose_defence(comparison).taken
    rows = []
    for number, defence in enumerate(comparison.defences, start=1):
        better = dominating(defence, comparison.defences)
        standing = (
            "take this"
            if defence is taken
            else "not dominated"
            if better is None
            else f"dominated by {better.name}"
        )
        name = text(f"{number}. {defence.name}")
        rows.append(
            [
                element("strong", name) if defence is taken else name,
                text(standing),
                text(percent(defence.test_accuracy.value)),
                text(percent(defence.tpr_population.value)),
                text(percent(defence.tpr_exposed.value)),
                text(
                    "no\u00a0proof"
                    if defence.epsilon_proved is None
                    else f"≤ {at_most(defence.epsilon_proved)}"
                ),
                text(f"{defence.seconds:.1f} s"),
            ]
        )
    header = [
        "Defence",
        "Standing",
        "Test accuracy",
        "Found, population",
        "Found, most exposed",
        "ε",
        "Time to train one",
    ]
    caption = f"All defences, by the best attack at {percent(comparison.fpr)} false alarms"
    return table(caption, header, rows, "overview")


def _intervals(comparison: ComparisonContent) -> Html:
    rows = [
        [
            text(defence.name),
            *(
                text(f"{percent(rate.value)} ({rate_range(rate)})")
                for rate in (defence.test_accuracy, defence.tpr_population, defence.tpr_exposed)
            ),
            text(defence.attack_population),
            text(defence.attack_exposed),
        ]
        for defence in comparison.defences
    ]
    header = [
        "Defence",
        "Test accuracy",
        "Population",
        "Most exposed",
        "Attack, population",
        "Attack, exposed",
    ]
    return table(
        f"Figures with intervals, which hold together with {percent(comparison.confidence)} confidence",
        header,
        rows,
    )


def _how(comparison: ComparisonContent) -> Html:
    sentences = [
        f"Every defence was trained on the same records, and attacked with {comparison.references} reference "
        "models that are trained with the same defence: the adversary knows it.",
        f"Population: {count(comparison.records)} records of the data, each a member by a coin. Most "
        f"exposed: {count(comparison.exposed)} records with a wrong label, half of them with "
        "a near-duplicate, placed by coins. Averages hide such people; a defence must protect them too.",
        f"All intervals hold together with {percent(comparison.confidence)} confidence. Where two intervals "
        "overlap, the figures are not clearly different.",
        "What is measured is a lower bound: a better attack may find more. Only ε limits every attack, and "
        "only training with differential privacy has one. Other defences have no proof.",
        "The choice of a defence by this comparison looked at the data. An ε holds for one training, and "
        "does not cover that choice; privet.tune pays for it.",
    ]
    return section("how", "How this was measured", [bullet_list(text(words) for words in sentences)])


def _reproduce(comparison: ComparisonContent) -> Html:
    origin = comparison.origin
    facts = [
        ("Command", origin.command),
        ("Privet", origin.version),
        ("Seed", "none was given" if origin.seed is None else str(origin.seed)),
        ("Made", origin.created.strftime("%Y-%m-%d %H:%M %Z")),
    ]
    return section("reproduce", "How to reproduce this", [description_list(facts)])
