"""The report page of attacks on federated runs: attack by defence, and what the server sees."""

import math

from privet.exhibits import Picture
from privet.reporting.charts.figures import chart_figure
from privet.reporting.charts.recoveries import SuccessRow, success_chart
from privet.reporting.federated_facts import AttackedDefence, FederatedAttack, FederatedContent
from privet.reporting.federated_words import federated_sentence, observer_words
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
from privet.reporting.numbers import at_most, count, percent, percent_at_most, rate_range, small
from privet.reporting.pictures import data_uri
from privet.reporting.whole_page import whole_page

__all__ = ["federated_page"]

_ROW = 46  # pixels of a row of a chart


def federated_page(content: FederatedContent) -> str:
    """One self-contained HTML file."""
    main = [
        _verdict(content),
        _defences(content),
        _attacks(content),
        *_sight(content),
        _how(content),
        _reproduce(content),
    ]
    return whole_page(content.title, content.title, content.origin, main)


def _verdict(content: FederatedContent) -> Html:
    kind = "leaks" if content.exceeded else "within"
    return element(
        "section",
        join_html(
            [
                element("h2", text("What was found"), {"class": "unseen-heading", "id": "verdict-heading"}),
                element("p", text(federated_sentence(content)), {"class": "sentence"}),
                paragraph(
                    f"{count(content.clients)} clients with {count(content.records)} records each trained a "
                    f"model in {count(content.rounds)} rounds. A coin for each target decided whether a "
                    f"client holds it, and attacks guess the coins.",
                    "note",
                ),
            ]
        ),
        {"id": "verdict", "class": f"verdict {kind}", "tabindex": "-1", "aria-labelledby": "verdict-heading"},
    )


def _defences(content: FederatedContent) -> Html:
    rows = [
        [
            text(defence.name),
            text(defence.words),
            text(f"{percent(defence.test_accuracy.value)} ({rate_range(defence.test_accuracy)})"),
            text(_epsilon(defence)),
            text(defence.covers),
        ]
        for defence in content.defences
    ]
    header = ["Defence", "What it does", "Test accuracy", "ε of a client", "Proved against"]
    notes = [
        f"ε of a client: all of a client's records together, over all rounds{_delta_words(content)}. A "
        "smaller ε is a stronger proof.",
        "Proved against: noise that the server adds hides a client from those who see models, and not from "
        "the server, which had the sum before the noise.",
    ]
    return section(
        "defences",
        "What each defence costs and proves",
        [table("All defences", header, rows, "federated"), bullet_list(text(words) for words in notes)],
    )


def _attacks(content: FederatedContent) -> Html:
    charts = [_chart(content, place, key) for place, key in enumerate(content.keys, start=1)]
    return section("attacks", "Attack by defence", [_overview(content), *charts])


def _chart(content: FederatedContent, place: int, key: str) -> Html:
    """One attack under every defence."""
    rows = [
        SuccessRow(defence.name, found.baseline, found.success, found.sure_ceiling, "left out")
        for defence in content.defences
        if (found := defence.find(key)) is not None
    ]
    in_words = "; ".join(
        f"{row.name}, {percent(row.success.value)} against {percent(row.baseline.value)}" for row in rows
    )
    chart = chart_figure(
        f"success-{place}",
        success_chart(rows),
        caption=(
            f"{key[:1].upper()}{key[1:]}: the baseline among targets that were left out, the success with "
            "its interval, and the proved ceiling where a proof covers the observer."
        ),
        description=f"Success of {key} under each defence: {in_words}.",
        height=130 + _ROW * len(rows),
        numbers=_rows_of_numbers(content, key),
    )
    return join_html([element("h3", text(f"{key[:1].upper()}{key[1:]}")), chart])


def _overview(content: FederatedContent) -> Html:
    rows = [[text(key), *(_cell(defence.find(key)) for defence in content.defences)] for key in content.keys]
    header = ["Attack", *(defence.name for defence in content.defences)]
    caption = (
        "Success and its interval, against the baseline; below it the most that any attack can reach, where "
        "a proof covers the observer"
    )
    return table(caption, header, rows, "federated")


def _cell(attack: FederatedAttack | None) -> Html:
    if attack is None:
        return text("–")
    low, high = (f"{100 * end:.0f}" for end in (attack.success.lower, attack.success.upper))
    lines = [
        element("strong" if attack.detected else "span", text(_whole_percent(attack.success.value))),
        text(f"{low} to {high}\u00a0%"),
        text(f"against {_whole_percent(attack.baseline.value)}"),
        text(_ceiling_words(attack)),
    ]
    return Html("<br>".join(lines))


def _ceiling_words(attack: FederatedAttack) -> str:
    if attack.sure_ceiling is None:
        return "no ceiling"
    most = math.ceil(1000 * attack.sure_ceiling - 1e-9) / 10  # rounded up
    return f"at most {most:g}\u00a0%" + (" – exceeded" if attack.exceeded else "")


def _whole_percent(share: float) -> str:
    return f"{100 * share:.0f}\u00a0%"


def _rows_of_numbers(content: FederatedContent, key: str) -> Html:
    rows = [
        [
            text(defence.name),
            text(f"{percent(attack.success.value)} ({rate_range(attack.success)})"),
            text(f"{percent(attack.baseline.value)} ({rate_range(attack.baseline)})"),
            text(f"{attack.leak.value:.3f} ({attack.leak.lower:.3f} to {attack.leak.upper:.3f})"),
            text("none" if attack.sure_ceiling is None else percent_at_most(attack.sure_ceiling)),
            text(count(attack.targets)),
        ]
        for defence in content.defences
        if (attack := defence.find(key)) is not None
    ]
    header = ["Defence", "Success", "Baseline", "Leak", "Ceiling", "Targets"]
    caption = f"Figures with intervals, each at {percent(content.confidence)} confidence"
    return table(caption, header, rows)


def _sight(content: FederatedContent) -> list[Html]:
    """Pictures of what the server reads of one client's message, under each defence."""
    shown = [defence for defence in content.defences if defence.sight is not None]
    if not shown:
        return []
    items = []
    if content.truths:
        words = "What nobody else should see."
        items.append(_pictures("The client's own records", words, content.truths))
    for defence in shown:
        sight = defence.sight
        if sight is not None:
            items.append(_pictures(f"The server, {defence.name}", sight.words, sight.pictures))
    return [
        section(
            "sight",
            "What the server sees of one client",
            [
                paragraph(
                    "The first layer of one message of the last round, as pictures: the row of a neuron, "
                    "divided by its bias. In an open update it is a mixture of the client's records, and "
                    "often one record by itself. Of a masked message only bytes can be read.",
                ),
                element("ul", join_html(items), {"class": "gallery"}),
            ],
        )
    ]


def _pictures(name: str, words: str, pictures: tuple[Picture, ...]) -> Html:
    inside = join_html(
        element(
            "div",
            Html(
                f'<img src="{data_uri(picture)}" alt="{text(f"{name}, picture {place}")}" '
                f'width="{picture.pixels.shape[1]}" height="{picture.pixels.shape[0]}">'
            ),
        )
        for place, picture in enumerate(pictures, start=1)
    )
    return element(
        "li",
        join_html(
            [
                element("strong", text(name)),
                element("div", inside, {"class": "pictures sight"}),
                element("p", text(words), {"class": "note"}),
            ]
        ),
    )


def _how(content: FederatedContent) -> Html:
    wants = {attack.key: attack.wants for defence in content.defences for attack in defence.attacks}
    observers = {attack.observer for defence in content.defences for attack in defence.attacks}
    sentences = [
        *(_want_words(key, want) for key, want in wants.items()),
        *(observer_words(observer) for observer in sorted(observers)),
        "Every attack ran on a live run, through an observer of its messages. An active adversary changes "
        "the run, so it has a run of its own.",
        "Success is the share of targets in the data that the attack names; the baseline is the share among "
        "targets that the coin left out. An attack without information has the same share of both.",
        f"Intervals hold at {percent(content.confidence)} confidence, each by itself. What is measured is a "
        "lower bound: a better attack may find more.",
        "The ceiling is for a client whose data are exchanged for others, at the upper end of the baseline's "
        "interval. It limits every attack of that observer. Masks and encryption have no ceiling: the sum, "
        "which they leave, is exact.",
    ]
    return section("how", "How this was measured", [bullet_list(text(words) for words in sentences)])


def _want_words(key: str, want: str) -> str:
    wish = f"to know {want}" if want.startswith("whether") else want
    return f"{key[:1].upper()}{key[1:]}: the adversary wants {wish}."


def _reproduce(content: FederatedContent) -> Html:
    origin = content.origin
    facts = [
        ("Command", origin.command),
        ("Privet", origin.version),
        ("Seed", "none was given" if origin.seed is None else str(origin.seed)),
        ("Made", origin.created.strftime("%Y-%m-%d %H:%M %Z")),
    ]
    note = paragraph("Noise, masks and keys are fresh in every run, so figures under them differ a little.")
    return section("reproduce", "How to reproduce this", [description_list(facts), note])


def _epsilon(defence: AttackedDefence) -> str:
    return "no\u00a0proof" if defence.epsilon_proved is None else f"≤ {at_most(defence.epsilon_proved)}"


def _delta_words(content: FederatedContent) -> str:
    deltas = {defence.delta for defence in content.defences if defence.delta is not None}
    return f", at δ = {small(deltas.pop())}" if len(deltas) == 1 else ""
