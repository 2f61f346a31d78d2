"""Evidence for a data protection impact assessment, by the four letters of Article 35(7) GDPR, as one page
without scripts.

Under each letter the page says what this audit supports and what the controller must add. An audit sees a
model and its scores, but not the processing: the controller describes purposes, legal bases, recipients and
the rights of people.
"""

from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import NamedTuple

from privet.reporting.advice import advice
from privet.reporting.caution import attack_strength, audit_badge
from privet.reporting.content import ReportContent
from privet.reporting.documents.evidence import (
    CONTROLLER,
    exposure_sentences,
    ledger_sentences,
    list_safeguards,
    measured_sentences,
    proof_sentences,
    scope_sentences,
    threat_sentences,
    untested_sentence,
)
from privet.reporting.facts import ModelAudit, Standing, Strength
from privet.reporting.fingerprint_section import identified_section
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
from privet.reporting.meaning import meaning
from privet.reporting.numbers import at_least, at_most, fraction, percent, rate_range
from privet.reporting.standings import badge_html
from privet.reporting.verdicts import verdict

__all__ = ["dpia_page"]


class _Letter(NamedTuple):
    """One letter of Article 35(7): a heading, the words of the law, and what the controller must add."""

    letter: str
    heading: str
    law: str
    left: tuple[str, ...]


_LETTERS = (
    _Letter(
        "a",
        "What is done with the data, and what for",
        "a systematic description of the envisaged processing operations and the purposes of the "
        "processing, including, where applicable, the legitimate interest pursued by the controller",
        (
            "The purposes, and the legitimate interest where that is the legal basis.",
            "The personal data, whose it is, its recipients, and how long it is kept.",
            "How the model is used, by whom, and what it gives to them: labels, confidences or its "
            "parameters.",
            "The systems, people and processors that are involved.",
            "Codes of conduct that apply (Article 35(8)).",
        ),
    ),
    _Letter(
        "b",
        "Whether it is necessary and proportionate",
        "an assessment of the necessity and proportionality of the processing operations in relation to "
        "the purposes",
        (
            "The legal basis, and why the purposes cannot be met with less data, or with none that is "
            "personal.",
            "Why the accuracy that was reached is needed, and what would do.",
            "How long data and models are kept, and why so long.",
            "How people are informed and exercise their rights (Articles 12 to 22); what erasure means for "
            "a model that is trained.",
            "Processors (Article 28) and transfers (Chapter V).",
        ),
    ),
    _Letter(
        "c",
        "What may happen to people",
        "an assessment of the risks to the rights and freedoms of data subjects",
        (
            "What it says about a person that their record was in this data, and what may follow from it: "
            "the severity.",
            "Who can reach the model as the attacks did: with the figures, the likelihood.",
            "Risks that were not tested here: inference of attributes, reconstruction and extraction of "
            "records.",
            "Risks to the data themselves: access by others, unwanted changes, loss.",
            "The views of data subjects or their representatives, where appropriate (Article 35(9)).",
        ),
    ),
    _Letter(
        "d",
        "What is done about it",
        "the measures envisaged to address the risks, including safeguards, security measures and "
        "mechanisms to ensure the protection of personal data and to demonstrate compliance",
        (
            "Which of the models is used, and that it is the one that was audited.",
            "Technical and organisational measures besides: access, logging, retention, staff, contracts.",
            "Whether the risk that is left is acceptable; the advice of the data protection officer "
            "(Article 35(2)).",
            "Prior consultation, if a high risk is left (Article 36).",
            "When to review: at least when the risk changes (Article 35(11)).",
        ),
    ),
)


def dpia_page(report: ReportContent) -> str:
    """One self-contained HTML file."""
    evidence = (_processing, _proportionality, _risks, _measures)
    letters = [
        _letter_section(letter, write(report)) for letter, write in zip(_LETTERS, evidence, strict=True)
    ]
    made = f"{report.origin.created:%d %B %Y}".lstrip("0")
    body = [
        element("a", text("Skip to the verdict"), {"class": "skip", "href": "#verdict"}),
        element(
            "header",
            join_html(
                [
                    element("h1", text("Evidence for a data protection impact assessment")),
                    paragraph(f"{report.title}. {made}. By the letters of Article 35(7) GDPR.", "made"),
                ]
            ),
        ),
        element(
            "main",
            join_html(
                [
                    _purpose(),
                    _verdict(report),
                    _contents(),
                    *letters,
                    identified_section(report),
                    _origin(report),
                ]
            ),
            {"id": "main"},
        ),
        element(
            "footer",
            paragraph(f"Privet {report.origin.version}. This file is complete and uses no network."),
        ),
    ]
    head = [
        Html('<meta charset="utf-8">'),
        Html(
            '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src '
            "'unsafe-inline'; base-uri 'none'; form-action 'none'\">"
        ),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html('<meta name="color-scheme" content="light dark">'),
        element("title", text(f"Impact assessment evidence: {report.title}")),
        element("style", _asset("report.css") + _asset("dpia.css")),
    ]
    inside = join_html([element("head", join_html(head)), element("body", join_html(body))])
    return f"<!doctype html>\n{element('html', inside, {'lang': 'en'})}\n"


def _asset(name: str) -> str:
    return (files("privet.reporting") / "assets" / name).read_text(encoding="utf-8")


def _purpose() -> Html:
    return paragraph(
        "This is not an impact assessment. It is what an audit of a model can add to one: under each "
        "letter, what was measured or proved, and beside it what the controller must add. About the "
        "processing, this page knows only what the audit saw.",
        "purpose",
    )


def _verdict(report: ReportContent) -> Html:
    head = element("h2", text("Verdict"), {"class": "unseen-heading", "id": "verdict-heading"})
    words = element("p", text(verdict(report)), {"class": "sentence"})
    badge, strong = audit_badge(report.worst), report.worst.strength is Strength.CALIBRATED
    note = Html("") if strong else paragraph(attack_strength(report.worst), "note")
    return element(
        "section",
        join_html([head, badge_html(badge), words, note]),
        {
            "id": "verdict",
            "class": f"verdict {badge.kind}",
            "tabindex": "-1",
            "aria-labelledby": "verdict-heading",
        },
    )


def _contents() -> Html:
    links = [
        element("a", text(f"({letter.letter}) {letter.heading}"), {"href": f"#letter-{letter.letter}"})
        for letter in _LETTERS
    ]
    return element("nav", bullet_list(links), {"aria-label": "The letters of Article 35(7)"})


def _letter_section(letter: _Letter, evidence: Sequence[Html]) -> Html:
    name = f"letter-{letter.letter}"
    sign = element("span", text(f"({letter.letter})"), {"class": "sign"})
    head = element("h2", join_html([sign, element("span", text(letter.heading))]), {"id": f"{name}-heading"})
    law = paragraph(f"Article 35(7)({letter.letter}): “{letter.law}”.", "law")
    halves = [
        element(
            "div",
            join_html([element("h3", text("What this audit supports")), *evidence]),
            {"class": "supported"},
        ),
        element(
            "div",
            join_html(
                [
                    element("h3", text(CONTROLLER)),
                    bullet_list(text(words.replace("Article ", "Article\u00a0")) for words in letter.left),
                ]
            ),
            {"class": "left"},
        ),
    ]
    return element(
        "section",
        join_html([head, law, element("div", join_html(halves), {"class": "halves"})]),
        {"id": name, "class": "letter", "aria-labelledby": f"{name}-heading"},
    )


def _processing(report: ReportContent) -> list[Html]:
    return [
        bullet_list(text(words) for audit in report.audits for words in scope_sentences(audit)),
        *_by_model(report, ("What the ledger records as done to the data", ledger_sentences)),
    ]


def _proportionality(report: ReportContent) -> list[Html]:
    known = [audit for audit in report.audits if audit.test_accuracy is not None]
    if len(known) < 2:
        return [
            paragraph(
                "Fewer than two models with a known accuracy were audited, so the audit cannot say how much "
                "accuracy a model that leaks less would cost. Audit a second one as well, trained with "
                "differential privacy or at another ε."
            )
        ]
    rows = [
        [
            text(audit.name),
            text(percent(audit.test_accuracy or 0.0)),
            text("–" if not audit.on_records else f"≥\u00a0{at_least(audit.epsilon_of_records)}"),
            text(
                "–" if audit.epsilon_of_canaries is None else f"≥\u00a0{at_least(audit.epsilon_of_canaries)}"
            ),
            text(_proved_epsilon(audit)),
            text(fraction(audit.strongest.leakage.auc.value) if audit.results else "–"),
        ]
        for audit in known
    ]
    header = ["Model", "Test accuracy", "ε on records", "ε on canaries", "ε proved", "Attack AUC"]
    return [
        paragraph(
            "The accuracy of each model, and what it leaks. An audit cannot say whether the difference is "
            "worth it."
        ),
        table("Accuracy beside leakage", header, rows),
    ]


def _risks(report: ReportContent) -> list[Html]:
    rows = []
    for audit in report.audits:
        for result in audit.results:
            leakage, fpr = result.leakage, result.leakage.reported_fpr
            tpr = None if fpr is None else leakage.tpr(fpr)
            members_found = (
                text("too few records to say")
                if fpr is None or tpr is None
                else join_html([text(f"{percent(tpr.value)} at {percent(fpr)}"), _interval(rate_range(tpr))])
            )
            area = f"{fraction(leakage.auc.lower)} to {fraction(leakage.auc.upper)}"
            rows.append(
                [
                    text(f"{audit.name}: {result.name}" if len(report.audits) > 1 else result.name),
                    join_html([text(fraction(leakage.auc.value)), _interval(area)]),
                    members_found,
                    text(f"≥\u00a0{at_least(result.finding.measured.value)}"),
                ]
            )
    header = ["Attack", "AUC", "Members found, at false alarms", "ε"]
    return [
        paragraph(
            "The risk that was tested is illegitimate access: that somebody learns that a person's record "
            "was in the training data"
            + (", or recovers what it says." if any(audit.recoveries for audit in report.audits) else ".")
        ),
        element("h4", text("Threats that were tried")),
        bullet_list(map(text, threat_sentences(report))),
        *([table("What each attack found, with its interval", header, rows)] if rows else []),
        *_by_model(
            report,
            ("What was measured: grounds for a likelihood", measured_sentences),
            ("What it means for a person", _meaning),
            ("Who is more exposed", exposure_sentences),
        ),
        element("h4", text("What was not tested")),
        paragraph(untested_sentence(report)),
    ]


def _interval(words: str) -> Html:
    return element("span", text(words), {"class": "range"})


def _measures(report: ReportContent) -> list[Html]:
    def next_steps(audit: ModelAudit) -> list[str]:
        return [f"{piece.what} {piece.why}" for piece in advice(report, audit)]

    return [
        element("h4", text("Measures")),
        bullet_list(text(measure.title) for measure in list_safeguards(report)),
        paragraph(
            "To test measures, and to test them again when the model, its data or its training changes, is "
            "itself a measure (Article 32(1)(d))."
        ),
        *_by_model(
            report,
            ("What is proved", proof_sentences),
            ("What the figures rest on", lambda audit: [caveat.sentence for caveat in audit.caveats]),
            ("What was checked before the attacks", _check_sentences),
            ("What the figures call for next", next_steps),
        ),
    ]


def _check_sentences(audit: ModelAudit) -> list[str]:
    return [
        f"{check.name[:1].upper()}{check.name[1:]}, {check.outcome}: {check.finding}"
        for check in audit.checks
    ]


def _meaning(audit: ModelAudit) -> list[str]:
    # A claim that does not hold means nothing for a person.
    return [] if audit.standing is Standing.BROKEN else meaning(audit)


def _proved_epsilon(audit: ModelAudit) -> str:
    if audit.epsilon_proved is None:
        return "nothing"
    bound = at_most(audit.epsilon_proved)
    return f"claimed ≤ {bound}, contradicted" if audit.standing is Standing.BROKEN else f"≤ {bound}"


def _by_model(report: ReportContent, *headed: tuple[str, Callable[[ModelAudit], list[str]]]) -> list[Html]:
    """Sentences under headings, for each model under its name where there are several.

    An empty list has no heading.
    """
    parts = []
    several = len(report.audits) > 1
    for audit in report.audits:
        under = [(heading, sentences(audit)) for heading, sentences in headed]
        if several and any(sentences for _, sentences in under):
            parts.append(element("h4", text(audit.name), {"class": "name"}))
        for heading, sentences in under:
            if sentences:
                parts += [
                    element("h5" if several else "h4", text(heading)),
                    bullet_list(map(text, sentences)),
                ]
    return parts


def _origin(report: ReportContent) -> Html:
    origin = report.origin
    facts = [
        ("Command", origin.command),
        ("Privet", origin.version),
        ("Seed", "none was given" if origin.seed is None else str(origin.seed)),
        ("Made", f"{origin.created:%Y-%m-%d %H:%M %Z}"),
    ]
    return section("origin", "How this came to be", [description_list(facts)])
