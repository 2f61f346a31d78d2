"""One model: its standing and key figures, its ROC, its ε from both sides, its scores."""

from privet.auditing.leakage import RATES
from privet.reporting.charts.epsilon import attack_spans, epsilon_chart
from privet.reporting.charts.figures import drawn
from privet.reporting.charts.proved_curve import most_found
from privet.reporting.charts.roc import roc_chart
from privet.reporting.charts.scores import histogram, scores_chart
from privet.reporting.facts import AttackResult, ModelAudit
from privet.reporting.markup import Html, element, joined, paragraph, section, table, text
from privet.reporting.meaning import telling_rate
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

__all__ = ["attacks_table", "epsilon_section", "key_figures", "roc_section", "scores_section", "tiles"]


def key_figures(audit: ModelAudit) -> Html:
    """The five figures to remember."""
    strongest = audit.strongest
    leakage = strongest.leakage
    fpr = telling_rate(strongest)
    found = None if fpr is None else leakage.tpr(fpr)
    cards = [
        (
            "Members found" if fpr is None else f"Members found at {percent(fpr)} false alarms",
            "not known" if found is None else percent(found.value),
            "too few non-members"
            if found is None or fpr is None
            else f"{rate_range(found)}; chance: {percent(fpr)}",
        ),
        (
            "AUC of the strongest attack",
            fraction(leakage.auc.value),
            f"{fraction(leakage.auc.lower)} to {fraction(leakage.auc.upper)}; chance: 0.5",
        ),
        *_epsilon_cards(audit),
        (
            "ε at most, proved",
            "no proof" if audit.epsilon_proved is None else at_most(audit.epsilon_proved),
            "nothing caps an attack"
            if audit.claim is None
            else f"δ = {small(audit.delta)}, {audit.claim.adjacency}",
        ),
    ]
    if audit.test_accuracy is not None:
        trained = "" if audit.train_accuracy is None else f"on members: {percent(audit.train_accuracy)}"
        cards.append(("Accuracy on others", percent(audit.test_accuracy), trained))
    scored = f"{count(leakage.roc.members)} members and {count(leakage.roc.others)} others were scored by "
    return joined(
        [
            tiles(cards),
            paragraph(
                f"{scored}{_attacks(audit)}. All intervals and bounds hold together at {100 * audit.confidence:.3g} % confidence, so each by "
                f"itself at more. Strongest: {strongest.name}.",
                "note",
            ),
        ]
    )


def _epsilon_cards(audit: ModelAudit) -> list[tuple[str, str, str]]:
    """ε on people's records and ε on canaries: two figures, which are not to be compared with each other."""
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
    """Figures with their names above and what they need to be read with below."""
    return element(
        "dl",
        joined(
            element(
                "div",
                joined(
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
    """How many members are found, for how many false alarms."""
    strongest = audit.strongest
    floor = strongest.leakage.fpr_floor
    found = {fpr: rate for fpr, rate in strongest.leakage.tprs.items() if rate is not None}
    told = "; ".join(f"{percent(rate.value)} at {percent(fpr)}" for fpr, rate in found.items())
    described = (
        f"ROC of {strongest.name} on logarithmic axes. Members found at false-alarm rates: {told or 'none supported'}. "
        f"AUC {fraction(strongest.leakage.auc.value)}."
    )
    proof = "" if audit.claim is None else " Nothing can lie in the shaded region above the proof's line."
    caption = (
        f"Both axes are logarithmic: the left edge, where false alarms are rare, is where people get hurt. Below the floor of "
        f"{percent(floor)} (one of {count(strongest.leakage.roc.others)} non-members) nothing can be said.{proof}"
    )
    return section(
        f"{prefix}-roc",
        "How many members an attack finds",
        [
            element(
                "div",
                joined(
                    [
                        drawn(
                            f"{prefix}-roc-chart",
                            roc_chart(audit),
                            caption=caption,
                            described=described,
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
        found, cap = leakage.tpr(fpr), most_found(audit.claim, fpr)
        interval = element("span", text("" if found is None else rate_range(found)), {"class": "range"})
        cell = "too few others" if found is None else percent(found.value)
        row = [text(percent(fpr)), joined([text(cell), interval])]
        if audit.claim is not None:
            row.append(text("–" if cap is None else percent_at_most(cap)))
        rows.append(row)
    header = ["False alarms", "Members found"]
    if audit.claim is not None:
        header.append("At most, by proof")
    return table(f"{audit.strongest.name}, by false-alarm rate", header, rows)


def attacks_table(audit: ModelAudit) -> Html:
    """All attacks on one model."""
    header = ["Attack", *(f"Found at {percent(fpr)}" for fpr in RATES), "AUC", "ε at least", "Told members"]
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
    described = f"ε of {audit.name}: {'; '.join(f'{name}: {value} ({beside})' for name, value, beside in _epsilon_cards(audit))}; {proved}."
    caption = (
        f"ε says how much more likely any outcome can become by one record, e^ε times at most, at δ = {small(audit.delta)}. An attack shows "
        f"that it is at least so much, a proof that it is at most so much; the truth lies between. A measurement far below its "
        f"ceiling says that the attacks were weak or the leak is small, not which of the two."
    )
    return section(
        f"{prefix}-epsilon",
        "ε from both sides",
        [
            drawn(
                f"{prefix}-epsilon-chart",
                epsilon_chart(spans),
                caption=caption,
                described=described,
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
    """What the strongest attack saw."""
    result = audit.strongest
    coarse = histogram(result.scores, 12)
    rows = [
        [
            text(f"{low:.3g} to {high:.3g}"),
            text(percent(float(inside))),
            text(percent(float(outside))),
        ]
        for low, high, inside, outside in zip(
            coarse.edges[:-1], coarse.edges[1:], coarse.members, coarse.others, strict=True
        )
    ]
    return section(
        f"{prefix}-scores",
        "What the attack saw",
        [
            drawn(
                f"{prefix}-scores-chart",
                scores_chart(result),
                caption=f"Scores of {result.name}. The more the two shapes lie apart, and above all their right ends, the easier "
                f"members are told. Scores beyond the ends are counted in the last bins.",
                described=f"Histograms of the scores of members and of others under {result.name}; "
                f"a member scores above another with probability {fraction(result.leakage.auc.value)}.",
                height=320,
                numbers=table("Share of records by score", ["Score", "Members", "Others"], rows),
            )
        ],
        level=3,
    )
