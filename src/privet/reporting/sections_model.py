"""Sections on one model: its key figures, its ROC, its ε from both sides, its scores."""

from privet.auditing.leakage import RATES
from privet.reporting.charts.epsilon import attack_spans, epsilon_chart
from privet.reporting.charts.figures import chart_figure
from privet.reporting.charts.proved_curve import highest_tpr
from privet.reporting.charts.roc import roc_chart
from privet.reporting.charts.scores import bin_scores, scores_chart
from privet.reporting.facts import AttackResult, ModelAudit
from privet.reporting.markup import Html, element, join_html, paragraph, section, table, text
from privet.reporting.numbers import (
    at_least,
    at_most,
    count,
    fraction,
    percent,
    percent_at_most,
    rate_range,
    small,
)
from privet.reporting.sections_recoveries import recovery_tiles
from privet.reporting.sections_table import table_tiles

__all__ = ["attacks_table", "epsilon_section", "key_figures", "roc_section", "scores_section", "tiles"]


def key_figures(audit: ModelAudit) -> Html:
    """The figures to remember."""
    if not audit.results:
        return _recovery_figures(audit)
    strongest = audit.strongest
    leakage = strongest.leakage
    fpr = leakage.reported_fpr
    tpr = None if fpr is None else leakage.tpr(fpr)
    cards = [
        (
            "Members found" if fpr is None else f"Members found at {percent(fpr)} false alarms",
            "not known" if tpr is None else percent(tpr.value),
            "too few non-members"
            if tpr is None or fpr is None
            else f"{rate_range(tpr)}; chance: {percent(fpr)}",
        ),
        (
            "AUC of the strongest attack",
            fraction(leakage.auc.value),
            f"{fraction(leakage.auc.lower)} to {fraction(leakage.auc.upper)}; chance: 0.5",
        ),
        *recovery_tiles(audit),
        *_epsilon_cards(audit),
        _proof_card(audit),
    ]
    if audit.test_accuracy is not None:
        trained = "" if audit.train_accuracy is None else f"on members: {percent(audit.train_accuracy)}"
        cards.append(("Accuracy on others", percent(audit.test_accuracy), trained))
    if audit.regression is not None:
        fit = audit.regression
        r2 = ("–" if value is None else fraction(value) for value in (fit.test_r2, fit.train_r2))
        cards.append(("R² on others", next(r2), f"on members: {next(r2)}"))
    records = f"{count(leakage.roc.members)} members and {count(leakage.roc.others)} others were scored by "
    return join_html(
        [
            tiles(cards),
            paragraph(
                f"{records}{_attacks(audit)}. All intervals and bounds hold together at "
                f"{100 * audit.confidence:.3g} % confidence; each by itself holds at a higher one. "
                f"Strongest: {strongest.name}.",
                "note",
            ),
        ]
    )


def _recovery_figures(audit: ModelAudit) -> Html:
    """The figures of a report without attacks on membership."""
    shown = [(result.name, result.epsilon) for result in audit.recoveries if result.epsilon is not None]
    cards = [*table_tiles(audit), *recovery_tiles(audit)]
    if shown:
        name, value = max(shown, key=lambda pair: pair[1])
        cards.append(("ε at least, by recoveries", at_least(value), f"by {name}"))
    note = (
        f"All intervals and bounds hold together at {100 * audit.confidence:.3g} % confidence; each by "
        f"itself holds at a higher one.{'' if audit.table else ' Membership was not attacked.'}"
    )
    return join_html([tiles([*cards, _proof_card(audit)]), paragraph(note, "note")])


def _proof_card(audit: ModelAudit) -> tuple[str, str, str]:
    return (
        "ε at most, proved",
        "no proof" if audit.epsilon_proved is None else at_most(audit.epsilon_proved),
        "nothing caps an attack"
        if audit.claim is None
        else f"δ = {small(audit.delta)}, {audit.claim.adjacency}",
    )


def _epsilon_cards(audit: ModelAudit) -> list[tuple[str, str, str]]:
    """ε on people's records and ε on canaries: two figures that must not be compared with each other."""
    sure = f"{100 * audit.confidence:.4g} % confidence"
    cards = []
    for name, results in (("records", audit.on_records), ("canaries", audit.on_canaries)):
        if results:
            best = max(results, key=lambda result: result.finding.measured.value).finding
            cards.append(
                (
                    f"ε at least, on {name}",
                    at_least(best.measured.value),
                    f"{sure}; could show {at_least(best.ceiling)}",
                )
            )
    return cards


def tiles(cards: list[tuple[str, str, str]]) -> Html:
    """Cards with a name, a figure, and a note below it."""
    return element(
        "dl",
        join_html(
            element(
                "div",
                join_html(
                    [
                        element("dt", text(name)),
                        element("dd", text(value), {"class": "value"}),
                        element("dd", text(beside), {"class": "beside"}),
                    ]
                ),
            )
            for name, value, beside in cards
        ),
        {"class": "tiles"},
    )


def _attacks(audit: ModelAudit) -> str:
    number = len(audit.results)
    return "one attack" if number == 1 else f"{number} attacks"


def roc_section(prefix: str, audit: ModelAudit) -> Html:
    """How many members an attack finds, by false-alarm rate; empty where membership was not attacked."""
    if not audit.results:
        return Html("")
    strongest = audit.strongest
    floor = strongest.leakage.fpr_floor
    tprs = {fpr: rate for fpr, rate in strongest.leakage.tprs.items() if rate is not None}
    rates = "; ".join(f"{percent(rate.value)} at {percent(fpr)}" for fpr, rate in tprs.items())
    description = (
        f"ROC of {strongest.name} on logarithmic axes. Members found at false-alarm rates: "
        f"{rates or 'none supported'}. AUC {fraction(strongest.leakage.auc.value)}."
    )
    proof = "" if audit.claim is None else " Nothing can lie in the shaded region above the proof's line."
    caption = (
        f"Both axes are logarithmic: the left edge, where false alarms are rare, is where people get hurt. "
        f"Below the floor of {percent(floor)} (one of {count(strongest.leakage.roc.others)} non-members) "
        f"nothing can be said.{proof}"
    )
    return section(
        f"{prefix}-roc",
        "How many members an attack finds",
        [
            element(
                "div",
                join_html(
                    [
                        chart_figure(
                            f"{prefix}-roc-chart",
                            roc_chart(audit),
                            caption=caption,
                            description=description,
                            height=440,
                            numbers=attacks_table(audit),
                        ),
                        rates_table(audit),
                    ]
                ),
                {"class": "beside-chart"},
            )
        ],
        level=3,
    )


def rates_table(audit: ModelAudit) -> Html:
    """The strongest attack at four false-alarm rates, between chance and proof."""
    leakage = audit.strongest.leakage
    rows = []
    for fpr in RATES:
        tpr, cap = leakage.tpr(fpr), highest_tpr(audit.claim, fpr)
        interval = element("span", text("" if tpr is None else rate_range(tpr)), {"class": "range"})
        cell = "too few others" if tpr is None else percent(tpr.value)
        row = [text(percent(fpr)), join_html([text(cell), interval])]
        if audit.claim is not None:
            row.append(text("–" if cap is None else percent_at_most(cap)))
        rows.append(row)
    header = ["False alarms", "Members found"]
    if audit.claim is not None:
        header.append("At most, by proof")
    return table(f"{audit.strongest.name}, by false-alarm rate", header, rows)


def attacks_table(audit: ModelAudit) -> Html:
    """A table of all attacks on one model."""
    header = ["Attack", *(f"Found at {percent(fpr)}" for fpr in RATES), "AUC", "ε at least", "Detected"]
    return table(f"Attacks on {audit.name}", header, [_attack_row(result) for result in audit.results])


def _attack_row(result: AttackResult) -> list[Html]:
    rates = ["–" if rate is None else percent(rate.value) for rate in result.leakage.tprs.values()]
    auc = result.leakage.auc
    return [
        text(f"{result.name} (canaries)" if result.planted else result.name),
        *(text(rate) for rate in rates),
        text(f"{fraction(auc.value)} ({fraction(auc.lower)} to {fraction(auc.upper)})"),
        text(at_least(result.finding.measured.value)),
        text("yes" if result.detected else "not detected"),
    ]


def epsilon_section(prefix: str, audit: ModelAudit) -> Html:
    """ε from both sides."""
    if not audit.results:
        return Html("")
    spans = attack_spans(audit)
    rows = [
        [
            text(span.name),
            text("–" if span.measured is None else at_least(span.measured)),
            text("–" if span.canaries is None else at_least(span.canaries)),
            text("no proof" if span.proved is None else at_most(span.proved)),
            text(at_least(span.ceiling)),
        ]
        for span in spans
    ]
    proved = (
        "nothing is proved"
        if audit.epsilon_proved is None
        else f"at most {at_most(audit.epsilon_proved)} is proved"
    )
    measured = "; ".join(f"{name}: {value} ({beside})" for name, value, beside in _epsilon_cards(audit))
    description = f"ε of {audit.name}: {measured}; {proved}."
    caption = (
        f"One record makes any outcome at most e^ε times as likely, at δ = {small(audit.delta)}. An attack "
        f"shows a lower bound on ε, a proof an upper bound; the truth lies between. A measurement far below "
        f"its ceiling says that the attacks were weak or the leak is small, not which of the two."
    )
    return section(
        f"{prefix}-epsilon",
        "ε from both sides",
        [
            chart_figure(
                f"{prefix}-epsilon-chart",
                epsilon_chart(spans),
                caption=caption,
                description=description,
                height=150 + 44 * len(spans),
                numbers=table(
                    "ε by attack",
                    [
                        "Attack",
                        "At least, on records",
                        "At least, on canaries",
                        "At most, proved",
                        "Most that the sample can show",
                    ],
                    rows,
                ),
            )
        ],
        level=3,
    )


def scores_section(prefix: str, audit: ModelAudit) -> Html:
    """The scores of the strongest attack."""
    if not audit.results:
        return Html("")
    result = audit.strongest
    bins = bin_scores(result.scores, 12)
    rows = [
        [
            text(f"{low:.3g} to {high:.3g}"),
            text(percent(float(inside))),
            text(percent(float(outside))),
        ]
        for low, high, inside, outside in zip(
            bins.edges[:-1], bins.edges[1:], bins.members, bins.others, strict=True
        )
    ]
    return section(
        f"{prefix}-scores",
        "What the attack saw",
        [
            chart_figure(
                f"{prefix}-scores-chart",
                scores_chart(result),
                caption=(
                    f"Scores of {result.name}. The further the two shapes lie apart, above all at their "
                    f"right ends, the easier it is to tell members from others. Scores beyond the ends are "
                    f"counted in the last bins."
                ),
                description=f"Histograms of the scores of members and of others under {result.name}; "
                f"a member scores above another with probability {fraction(result.leakage.auc.value)}.",
                height=320,
                numbers=table("Share of records by score", ["Score", "Members", "Others"], rows),
            )
        ],
        level=3,
    )
