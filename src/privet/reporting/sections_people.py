"""People: which records, classes and groups are exposed, and what the figures mean for one of them."""

from collections.abc import Sequence

from privet.auditing.harm import GroupAccuracy, GroupHarm
from privet.reporting.facts import Harm, ModelAudit
from privet.reporting.markup import Html, element, joined, listed, paragraph, section, table, text
from privet.reporting.meaning import Crowd, crowd, meaning
from privet.reporting.numbers import count, fraction, percent, rate_range

__all__ = ["harm_section", "meaning_section"]

_LISTED = 20
_COLUMNS, _STEP = 50, 10


def harm_section(prefix: str, audit: ModelAudit) -> Html:
    """The records most at risk, and who is worse off than the rest; empty where nothing is known of it."""
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
        told = (
            f"{count(risk.flagged)} members stand out from all non-members by {harm.attack}: of such a list at most "
            f"{percent(risk.false_discoveries)} is expected to be coincidence."
        )
    else:
        told = (
            f"No member stands out from the non-members by {harm.attack} beyond coincidence, "
            f"at a share of {percent(risk.false_discoveries)} false discoveries. The first of the order are shown all the same."
        )
    scores = next((result.scores for result in audit.results if result.name == harm.attack), None)
    if scores is None:  # the attack itself is not in the report
        return paragraph(told)
    others = int((~scores.members).sum())
    rows = []
    for place, (record, p_value) in enumerate(
        zip(risk.records[:_LISTED], risk.p_values[:_LISTED], strict=True)
    ):
        higher = round(p_value * (1 + others)) - 1
        rows.append(
            [
                text(f"{place + 1}"),
                text(f"member {harm.names[place]}"),
                text(f"{scores.values[record]:.3g}"),
                text(f"{count(higher)} of {count(others)}"),
                text("exposed" if place < risk.flagged else "within chance"),
            ]
        )
    numbers = table(
        "Records most at risk (rows of the members as given, counted from 0)",
        ["Rank", "Record", "Score", "Others who score as high", "Reading"],
        rows,
        "dense",
    )
    return joined(
        [
            paragraph(told),
            element(
                "details",
                joined([element("summary", text(f"The {len(rows)} most exposed records")), numbers]),
            ),
        ]
    )


def _groups(
    heading: str, noun: str, groups: Sequence[GroupHarm], accuracies: Sequence[GroupAccuracy]
) -> Html:
    flagged = [f"{noun} {group.name}" for group in groups if group.flagged]
    told = (
        f"Worse off than all others together, after correction for {len(groups)} comparisons: {', '.join(flagged)}."
        if flagged
        else f"No {noun} is worse off than the others beyond chance, after correction for {len(groups)} comparisons."
    )
    right = {one.name: one for one in accuracies}
    rows = [
        [
            text(group.name),
            _bar(group),
            text("–" if group.at_common is None else percent(group.at_common.value)),
            *([_accuracy(right.get(group.name))] if right else []),
            text(f"{count(group.leakage.roc.members)} / {count(group.leakage.roc.others)}"),
            text("worse off" if group.flagged else "–"),
        ]
        for group in groups
    ]
    return joined(
        [
            element("h4", text(heading)),
            paragraph(told),
            table(
                f"Leakage{' and accuracy' if right else ''} by {noun}, the worst leak first",
                [
                    noun.capitalize(),
                    "AUC among its own",
                    "Found at 1 % false alarms of all",
                    *(["Accuracy on others"] if right else []),
                    "Members / others",
                    "Reading",
                ],
                rows[:_LISTED],
            ),
        ]
    )


def _accuracy(found: GroupAccuracy | None) -> Html:
    """On records that were not trained on, with the interval; members are beside it."""
    if found is None or found.on_others is None:
        return text("–")
    lines = [rate_range(found.on_others)]
    if found.on_members is not None:
        lines.append(f"on members {percent(found.on_members.value)}")
    beside = [element("span", text(words), {"class": "range"}) for words in lines]
    return joined([text(percent(found.on_others.value)), *beside])


def _bar(group: GroupHarm) -> Html:
    """The AUC as a number and as a line from chance to 1 with its interval."""
    auc = group.leakage.auc

    def at(area: float) -> float:
        return 100 * min(max(2 * area - 1, 0.0), 1.0)

    left, right, middle = at(auc.lower), at(auc.upper), at(auc.value)
    inside = (
        f'<svg class="meter" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" focusable="false">'
        f'<rect class="rail" x="0" y="4" width="100" height="2"/>'
        f'<rect class="span" x="{left:.1f}" y="2.5" width="{max(right - left, 0.8):.1f}" height="5"/>'
        f'<rect class="mark" x="{max(middle - 0.7, 0):.1f}" y="0.5" width="1.4" height="9"/></svg>'
    )
    return joined([text(fraction(auc.value)), Html(inside)])


def meaning_section(prefix: str, audit: ModelAudit) -> Html:
    """In frequencies, with a picture of a thousand members."""
    sentences = listed((text(words) for words in meaning(audit)), "said")
    people = crowd(audit)
    if people is None:
        return section(f"{prefix}-meaning", "What this means for a person", [sentences], level=3)
    return section(
        f"{prefix}-meaning",
        "What this means for a person",
        [element("div", joined([_pictogram(people), sentences]), {"class": "person"})],
        level=3,
    )


def _pictogram(people: Crowd) -> Html:
    """A thousand dots: those who are found, those who could be found within the proof, and the rest."""
    capped = 1000 if people.at_most is None else max(people.at_most, people.found)
    layers = [
        ("rest", range(capped, 1000)),
        ("could", range(people.found, capped)),
        ("found", range(people.found)),
    ]
    paths = "".join(
        f'<path class="{kind if not (kind == "could" and people.at_most is None) else "rest"}" d="{_dots(places)}"/>'
        for kind, places in layers
        if len(places)
    )
    told = f"Of 1,000 members, {people.found} were found in this sample"
    told += "." if people.at_most is None else f"; by proof, no attack finds more than {people.at_most}."
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
        joined(
            [
                Html(
                    f'<svg class="crowd" viewBox="0 0 {_COLUMNS * _STEP} {rows * _STEP}" role="img" '
                    f'aria-label="{text(told)}">{paths}</svg>'
                ),
                element(
                    "figcaption",
                    joined(
                        [
                            text(
                                f"A thousand members, with {people.false_alarms} of 1,000 others named by mistake."
                            ),
                            element("ul", joined(key), {"class": "key"}),
                        ]
                    ),
                ),
            ]
        ),
        {"class": "crowd-figure"},
    )


def _dots(places: range) -> str:
    """Dots as round ends of lines of no length: one short path for all of them."""
    half = _STEP // 2
    return "".join(
        f"M{place % _COLUMNS * _STEP + half} {place // _COLUMNS * _STEP + half}h0" for place in places
    )
