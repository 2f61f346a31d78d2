"""The section on a language model: the most exposed authors and texts, passages beside what the model wrote,
and the exposure of planted secrets.

Words of texts and names of authors are shown only where the report shows private data. Otherwise passages are
redacted: one block for each token, marked where the model wrote the same.
"""

from privet.reporting.content import ReportContent
from privet.reporting.facts import ModelAudit
from privet.reporting.markup import Html, bullet_list, element, join_html, paragraph, section, table, text
from privet.reporting.numbers import count
from privet.reporting.text_facts import ExposedUnit, MarkedPassage, Piece, SecretExposure, TextFacts
from privet.reporting.text_words import text_sentences

__all__ = ["text_section"]

_PRIVATE = (
    "This section shows private data: texts, their authors, and passages. Keep this file as confidential as "
    "the texts."
)
_REDACTED = (
    "Texts, names of authors and passages are redacted. Numbers are those of the texts as they were given, "
    "and of the authors in alphabetical order, counted from 0. Save the report with exhibits=True to see the "
    "words."
)


def text_section(prefix: str, report: ReportContent, audit: ModelAudit) -> Html:
    """What a language model remembers; empty for other models."""
    found = audit.text
    if found is None:
        return Html("")
    shown = report.exhibits
    parts = [
        bullet_list((text(words) for words in text_sentences(found)), "said"),
        paragraph(_PRIVATE, "private") if shown else paragraph(_REDACTED, "note"),
        _list_exposed(
            "author", found.author_attack, found.exposed_authors, found.authors_left_out, shown=shown
        ),
        _list_exposed("text", found.text_attack, found.exposed_texts, found.texts_left_out, shown=shown),
        _passages(found, shown=shown),
        _exposure_table(found),
    ]
    return section(f"{prefix}-text", "What the model remembers", parts, level=3)


def _list_exposed(
    noun: str, attack: str | None, units: tuple[ExposedUnit, ...], left_out: int, *, shown: bool
) -> Html:
    if attack is None or not units:
        return Html("")
    header = [noun.capitalize(), f"Of {count(left_out)} left out, as high", "Stands out"]
    if shown:
        header.insert(1, "Name" if noun == "author" else "Words")
    rows = []
    for unit in units:
        row = [
            text(count(unit.number)),
            text("none" if unit.as_high == 0 else count(unit.as_high)),
            text("yes" if unit.flagged else "–"),
        ]
        if shown:
            row.insert(1, element("span", text(unit.words), {"class": "excerpt"}))
        rows.append(row)
    return table(
        f"The most exposed {noun}s, by {attack}", header, rows, "exposed shown" if shown else "exposed"
    )


def _passages(found: TextFacts, *, shown: bool) -> Html:
    if not found.passages:
        return Html("")
    note = (
        "Each prompt was given to the model, which then wrote the likeliest words. Marked: tokens that are "
        "the same in both at the same place."
    )
    items = [element("li", _passage(each, shown=shown)) for each in found.passages]
    return join_html(
        [
            element("h4", text("Passages beside what the model wrote")),
            paragraph(note, "note"),
            element("ul", join_html(items), {"class": "passages"}),
        ]
    )


def _passage(passage: MarkedPassage, *, shown: bool) -> Html:
    verdict = "repeated in full" if passage.extracted else "not repeated in full"
    head = (
        f"Text {count(passage.number)}: {count(passage.matched)} of {count(passage.length)} tokens until the "
        f"first that differs; {verdict}"
    )
    if shown:
        lines = [
            _line("Prompt", text(passage.prompt)),
            _line("Source", _mark_words(passage.source)),
            _line("Model", _mark_words(passage.written)),
        ]
    else:
        lines = [_line("Source", _blocks(passage.agrees))]
    return join_html([paragraph(head, "note"), element("div", join_html(lines), {"class": "lines"})])


def _line(name: str, words: Html) -> Html:
    return Html(element("span", text(name)) + element("code", words))


def _mark_words(pieces: tuple[Piece, ...]) -> Html:
    """Words without line breaks between pieces, because spaces count here."""
    return Html(
        "".join(element("mark", text(each.text)) if each.same else text(each.text) for each in pieces)
    )


def _blocks(agrees: tuple[bool, ...]) -> Html:
    """One block for each token. The words for a screen reader say the same."""
    same = sum(agrees)
    blocks = "".join(f'<i class="{"same" if each else "other"}"></i>' for each in agrees)
    label = f"{count(same)} of {count(len(agrees))} tokens are the same"
    return element("span", Html(blocks), {"class": "blocks", "role": "img", "aria-label": label})


def _exposure_table(found: TextFacts) -> Html:
    if not found.exposure or found.most_bits is None or found.blind_bits is None:
        return Html("")
    rows = [
        [
            text(count(each.copies) if each.copies else "never inserted"),
            text(count(each.canaries)),
            join_html([text(f"{each.mean:.1f}"), _meter(each, found.blind_bits, found.most_bits)]),
            text(f"{found.blind_bits:.2f}"),
            text("no proof" if each.ceiling is None else f"{each.ceiling:.1f}"),
            text(f"{found.most_bits:.1f}"),
        ]
        for each in found.exposure
    ]
    header = ["Copies", "Secrets", "Mean exposure", "Baseline", "At most, by proof", "Largest"]
    return table("Exposure of planted secrets, in bits", header, rows)


def _meter(each: SecretExposure, baseline: float, most: float) -> Html:
    """The mean on a line from 0 to the largest exposure: a bar from the baseline, and a mark at the mean."""
    left, right = sorted((100 * min(baseline / most, 1.0), 100 * min(max(each.mean / most, 0.0), 1.0)))
    mean = 100 * min(max(each.mean / most, 0.0), 1.0)
    return Html(
        f'<svg class="meter" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" '
        f'focusable="false"><rect class="rail" x="0" y="4" width="100" height="2"/>'
        f'<rect class="span" x="{left:.1f}" y="2.5" width="{max(right - left, 0.8):.1f}" height="5"/>'
        f'<rect class="mark" x="{max(mean - 0.7, 0):.1f}" y="0.5" width="1.4" height="9"/></svg>'
    )
