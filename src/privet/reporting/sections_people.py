"""Sections on people: the exposed records, classes and groups, and what the figures mean for one person."""

from collections.abc import Sequence

from privet.auditing.harm import GroupAccuracy, GroupHarm
from privet.reporting.facts import Harm, ModelAudit
from privet.reporting.markup import Html, bullet_list, element, join_html, paragraph, section, table, text
from privet.reporting.meaning import Crowd, crowd, meaning
from privet.reporting.numbers import count, fraction, percent, rate_range

__all__ = ["harm_section", "meaning_section"]

_LISTED = 20
_COLUMNS, _STEP = 50, 10


def harm_section(prefix: str, audit: ModelAudit) -> Html:
    """The records most at risk, and the classes and groups that are worse off.

    Empty where that is not known.
    """
    harm = audit.harm
    if harm is None:
        return Html("")
    parts = [_records(audit, harm)]
    if harm.classes:
        parts.append(_groups("By class", "class", harm.classes, harm.class_accuracies))
    if harm.groups:
        parts.append(_groups("By group", "group", harm.groups, harm.group_accuracies))
    return section(f"{prefix}-people", "Who is most exposed", parts, level=3)


def _records(audit: ModelAudit, harm: Harm) -> Html:
    risk = harm.at_risk
    if risk.flagged:
        summary = (
            f"{count(risk.flagged)} members stand out from all non-members by {harm.attack}: at most "
            f"{percent(risk.false_discoveries)} of such a list is expected to be coincidence."
        )
    else:
        summary = (
            f"No member stands out from the non-members by {harm.attack} beyond coincidence, at a share of "
            f"{percent(risk.false_discoveries)} false discoveries. The first ones in order are listed anyway."
        )
    scores = next((result.scores for result in audit.results if result.name == harm.attack), None)
    if scores is None:  # the attack itself is not in the report
        return paragraph(summary)
    others = int((~scores.members).sum())
    rows = []
    for rank, (record, p_value) in enumerate(
        zip(risk.records[:_LISTED], risk.p_values[:_LISTED], strict=True)
    ):
        higher = round(p_value * (1 + others)) - 1
        rows.append(
            [
                text(f"{rank + 1}"),
                text(f"member {harm.names[rank]}"),
                text(f"{scores.values[record]:.3g}"),
                text(f"{count(higher)} of {count(others)}"),
                text("exposed" if rank < risk.flagged else "within chance"),
            ]
        )
    numbers = table(
        "Records most at risk (rows of the members as given, counted from 0)",
        ["Rank", "Record", "Score", "Others who score as high", "Reading"],
        rows,
        "dense",
    )
    return join_html(
        [
            paragraph(summary),
            element(
                "details",
                join_html([element("summary", text(f"The {len(rows)} most exposed records")), numbers]),
            ),
        ]
    )


def _groups(
    heading: str, noun: str, groups: Sequence[GroupHarm], accuracies: Sequence[GroupAccuracy]
) -> Html:
    flagged = [f"{noun} {group.name}" for group in groups if group.flagged]
    summary = (
        f"Worse off than all others together, after correction for {len(groups)} comparisons: "
        f"{', '.join(flagged)}."
        if flagged
        else f"No {noun} is worse off than the others beyond chance, corrected for {len(groups)} comparisons."
    )
    by_name = {accuracy.name: accuracy for accuracy in accuracies}
    rows = [
        [
            text(group.name),
            _bar(group),
            text("–" if group.at_common is None else percent(group.at_common.value)),
            *([_accuracy(by_name.get(group.name))] if by_name else []),
            text(f"{count(group.leakage.roc.members)} / {count(group.leakage.roc.others)}"),
            text("worse off" if group.flagged else "–"),
        ]
        for group in groups
    ]
    return join_html(
        [
            element("h4", text(heading)),
            paragraph(summary),
            table(
                f"Leakage{' and accuracy' if by_name else ''} by {noun}, the worst leak first",
                [
                    noun.capitalize(),
                    "AUC among its own",
                    "Found at 1 % false alarms of all",
                    *(["Accuracy on others"] if by_name else []),
                    "Members / others",
                    "Reading",
                ],
                rows[:_LISTED],
            ),
        ]
    )


def _accuracy(accuracy: GroupAccuracy | None) -> Html:
    """The accuracy on non-members with its interval, and below it the accuracy on members."""
    if accuracy is None or accuracy.on_others is None:
        return text("–")
    lines = [rate_range(accuracy.on_others)]
    if accuracy.on_members is not None:
        lines.append(f"on members {percent(accuracy.on_members.value)}")
    beside = [element("span", text(words), {"class": "range"}) for words in lines]
    return join_html([text(percent(accuracy.on_others.value)), *beside])


def _bar(group: GroupHarm) -> Html:
    """The AUC as a number, and as a mark with its interval on a line from chance to 1."""
    auc = group.leakage.auc

    def at(area: float) -> float:
        return 100 * min(max(2 * area - 1, 0.0), 1.0)

    left, right, middle = at(auc.lower), at(auc.upper), at(auc.value)
    inside = (
        f'<svg class="meter" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" '
        f'focusable="false">'
        f'<rect class="rail" x="0" y="4" width="100" height="2"/>'
        f'<rect class="span" x="{left:.1f}" y="2.5" width="{max(right - left, 0.8):.1f}" height="5"/>'
        f'<rect class="mark" x="{max(middle - 0.7, 0):.1f}" y="0.5" width="1.4" height="9"/></svg>'
    )
    return join_html([text(fraction(auc.value)), Html(inside)])


def meaning_section(prefix: str, audit: ModelAudit) -> Html:
    """What the figures mean for a person: sentences with frequencies, and a picture of a thousand members."""
    if not audit.results:
        return Html("")
    sentences = bullet_list((text(words) for words in meaning(audit)), "said")
    people = crowd(audit)
    if people is None:
        return section(f"{prefix}-meaning", "What this means for a person", [sentences], level=3)
    return section(
        f"{prefix}-meaning",
        "What this means for a person",
        [element("div", join_html([_pictogram(people), sentences]), {"class": "person"})],
        level=3,
    )


def _pictogram(people: Crowd) -> Html:
    """A thousand dots: members who are found, members who could be found within the proof, and the rest."""
    capped = 1000 if people.at_most is None else max(people.at_most, people.found)
    layers = [
        ("rest", range(capped, 1000)),
        ("rest" if people.at_most is None else "could", range(people.found, capped)),
        ("found", range(people.found)),
    ]
    paths = "".join(
        f'<path class="{kind}" d="{_dots(numbers)}"/>' for kind, numbers in layers if len(numbers)
    )
    summary = f"Of 1,000 members, {people.found} were found in this sample"
    summary += "." if people.at_most is None else f"; by proof, no attack finds more than {people.at_most}."
    rows = 1000 // _COLUMNS
    key = [element("li", text(f"{people.found} found in this sample"), {"class": "found"})]
    if people.at_most is not None and people.at_most > people.found:
        key.append(element("li", text(f"up to {people.at_most} by proof"), {"class": "could"}))
    key.append(
        element(
            "li", text("not found" if people.at_most is None else "out of reach, by proof"), {"class": "rest"}
        )
    )
    return element(
        "figure",
        join_html(
            [
                Html(
                    f'<svg class="crowd" viewBox="0 0 {_COLUMNS * _STEP} {rows * _STEP}" role="img" '
                    f'aria-label="{text(summary)}">{paths}</svg>'
                ),
                element(
                    "figcaption",
                    join_html(
                        [
                            text(
                                f"A thousand members, with {people.false_alarms} of 1,000 others named by "
                                f"mistake."
                            ),
                            element("ul", join_html(key), {"class": "key"}),
                        ]
                    ),
                ),
            ]
        ),
        {"class": "crowd-figure"},
    )


def _dots(numbers: range) -> str:
    """One short SVG path: each dot is the round cap of a line of length 0."""
    half = _STEP // 2
    return "".join(f"M{dot % _COLUMNS * _STEP + half} {dot // _COLUMNS * _STEP + half}h0" for dot in numbers)
