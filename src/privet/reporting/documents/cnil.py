"""The document that the CNIL's PIA software imports (github.com/LINCnil/pia): the beginning of an impact
assessment.

The file has five keys: ``pia``, ``answers``, ``measures``, ``evaluations`` and ``comments``. An answer names
its question by a whole number (``reference_to``, as in the tool's ``pia_architecture.json``) and has a
``text`` of HTML, a ``list`` of labels and a ``gauge`` from 0 (not judged) to 4. The tool looks questions up
by number, so a number that is written as text would not be found.

*What counts as answered.* The tool (``answerIsValid`` in ``global-evaluation.service.ts``) counts a question
as answered where its text or its list is not empty, and a gauge where the text is not empty and the gauge is
above 0. So an answer is written only where the audit itself answers: the threats that it tried (322) and the
measures that it found (324). Severity and likelihood (325, 326) have a text with the grounds and a gauge of
0, which the tool shows as not answered. What an audit can add to another question is a comment beside it;
everything else is left out. The names of author, evaluator and validator are empty, and no opinion is given.

*Reference* for the names of the fields: ``importData`` in ``pia.service.ts`` and
``2018-02-21-pia-example.json`` of LINCnil/pia, and ``pia_params`` in ``pias_controller.rb`` of
LINCnil/pia-back. Older versions of the tool spelt two of them otherwise (``rejected_reason``,
``applied_adjustements``).
"""

import json
from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Any, Final

from privet.reporting.caution import condition_sentences
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
from privet.reporting.facts import ModelAudit, Standing
from privet.reporting.markup import Html, bullet_list, element, join_html, paragraph, text
from privet.reporting.meaning import meaning
from privet.reporting.verdicts import verdict

__all__ = ["LEFT", "cnil_document"]

_PIA = 1
_LABELS_OF_THE_AUDIT, _GAUGES = (322, 324), (325, 326)

LEFT: Final[Mapping[int, str]] = {
    111: "Name the processing, its purposes, what is at stake and where it is used.",
    121: "List the personal data, its recipients, who has access, and how long it is kept.",
    122: "Describe the life of the data from its collection to its erasure.",
    321: "Say what it means for a person if it becomes known that their data was used.",
    322: "Add the threats to the data themselves: theft, copies, access by staff.",
    323: "Say who has the access that these threats need.",
    324: "Add your other measures. An audit cannot say whether those on the list are enough.",
    325: (
        "Judge the severity: it follows from what being in the data says about a person, which an audit "
        "does not know."
    ),
    326: "Judge the likelihood: it follows from these figures and from who can reach the model.",
}


def cnil_document(report: ReportContent) -> str:
    """An assessment to import: the audit's answers, with grounds as comments."""
    made = report.origin.created.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    safeguards = list_safeguards(report)
    plain = {
        "pia": _pia(report, made),
        "answers": [
            {
                "pia_id": _PIA,
                "reference_to": question,
                "data": _answer(question, report),
                "created_at": made,
                "updated_at": made,
                "id": number,
            }
            for number, question in enumerate((*_LABELS_OF_THE_AUDIT, *_GAUGES), start=1)
        ],
        "measures": [
            {
                "title": measure.title,
                "pia_id": _PIA,
                "content": bullet_list(text(words) for words in measure.sentences),
                "placeholder": None,
                "created_at": made,
                "updated_at": made,
                "id": number,
            }
            for number, measure in enumerate(safeguards, start=1)
        ],
        "evaluations": [],
        "comments": [
            {
                "description": words,
                "pia_id": _PIA,
                "reference_to": question,
                "for_measure": False,
                "created_at": made,
                "id": number,
            }
            for number, (question, words) in enumerate(_comments(report).items(), start=1)
        ],
    }
    return json.dumps(plain, indent=2, allow_nan=False) + "\n"


def _comments(report: ReportContent) -> dict[int, str]:
    """Beside each question: what the audit can add, and what is left to the controller."""
    return {
        question: " ".join([*_grounds(question, report), f"{CONTROLLER} {left}"])
        for question, left in LEFT.items()
    }


def _pia(report: ReportContent, made: str) -> dict[str, Any]:
    nobody = dict.fromkeys(("author_name", "evaluator_name", "validator_name"), "")
    opinions = (
        "dpo_status",
        "dpo_opinion",
        "concerned_people_opinion",
        "concerned_people_status",
        "concerned_people_searched_opinion",
        "concerned_people_searched_content",
        "rejection_reason",
        "applied_adjustments",
        "dpos_names",
        "people_names",
    )
    return {
        "id": _PIA,
        "status": 0,
        "is_example": 0,
        "is_archive": 0,
        "name": report.title,
        "category": "",
        **nobody,
        **dict.fromkeys(opinions),
        "structure_id": None,
        "progress": 0,
        "created_at": made,
        "updated_at": made,
    }


def _answer(question: int, report: ReportContent) -> dict[str, Any]:
    if question in _LABELS_OF_THE_AUDIT:
        labels = (
            threat_sentences(report)
            if question == 322
            else [measure.title for measure in list_safeguards(report)]
        )
        return {"text": None, "gauge": None, "list": labels}
    grounds = (
        _by_model(report, exposure_sentences)
        if question == 325
        else [
            paragraph(verdict(report)),
            *_by_model(report, _likelihood),
            paragraph(untested_sentence(report)),
        ]
    )
    return {"text": join_html(grounds), "gauge": 0, "list": []}


def _grounds(question: int, report: ReportContent) -> list[str]:
    """What an audit can add to a question that it does not answer; empty where the answer itself says it."""
    match question:
        case 111:
            return [f"The audit was about {_names(report)}.", untested_sentence(report)]
        case 121:
            return [words for audit in report.audits for words in scope_sentences(audit)]
        case 122:
            several = len(report.audits) > 1
            entries = [
                f"{audit.name}: {words}" if several else words
                for audit in report.audits
                for words in ledger_sentences(audit)
            ]
            return ["Recorded in the ledger:", *entries] if entries else []
        case 321:
            return ["One impact is certain if the risk happens: it is known that a person's data was used."]
        case 323:
            return ["Whoever has the access to the model that the threats describe is a source of risk."]
        case _:
            return []


def _by_model(report: ReportContent, write: Callable[[ModelAudit], list[str]]) -> list[Html]:
    """Sentences under the name of each model; without the name where there is one model only."""
    parts = []
    for audit in report.audits:
        sentences = write(audit)
        if sentences and len(report.audits) > 1:
            parts.append(element("p", element("em", text(audit.name))))
        if sentences:
            parts.append(bullet_list(map(text, sentences)))
    return parts


def _likelihood(audit: ModelAudit) -> list[str]:
    if audit.standing is Standing.BROKEN:  # its claim means nothing for a person
        return [*measured_sentences(audit), *proof_sentences(audit), *condition_sentences(audit)]
    proof = proof_sentences(audit)[:1] if audit.claim is not None else []
    return [*measured_sentences(audit), *proof, *condition_sentences(audit), *meaning(audit)]


def _names(report: ReportContent) -> str:
    names = [f"“{audit.name}”" for audit in report.audits]
    return f"the model {names[0]}" if len(names) == 1 else f"the models {', '.join(names)}"
