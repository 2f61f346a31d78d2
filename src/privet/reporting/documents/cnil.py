"""The document that the CNIL's PIA software imports (github.com/LINCnil/pia): an impact assessment that has been begun.

The file has five keys: ``pia``, ``answers``, ``measures``, ``evaluations`` and ``comments``. An answer names its question by a whole
number (``reference_to``, as in the tool's ``pia_architecture.json``) and has a ``text`` of HTML, a ``list`` of labels and a ``gauge`` from
0 (not judged) to 4. The tool looks questions up by number, so a number that is written as text would not be found.

*What counts as answered.* The tool (``answerIsValid`` in ``global-evaluation.service.ts``) counts a question as answered where its text
or its list is not empty, and for a gauge where the text is not empty and the gauge is above 0. So an answer is written only where the
audit itself answers: the threats that it tried (322) and the measures that it found (324). Severity and likelihood (325, 326) have a
text with the grounds and a gauge of 0, which the tool shows as not answered. What an audit can add to another question stands beside it
as a comment, and all else is left out. The names of author, evaluator and validator are empty, and no opinion is given.

*Reference* for the names of the fields: ``importData`` in ``pia.service.ts`` and ``2018-02-21-pia-example.json`` of LINCnil/pia, and
``pia_params`` in ``pias_controller.rb`` of LINCnil/pia-back. Older versions of the tool spelt two of them otherwise (``rejected_reason``,
``applied_adjustements``).
"""

import json
from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Any, Final

from privet.reporting.caution import rests_on
from privet.reporting.documents.evidence import (
    CONTROLLER,
    UNTESTED,
    exposed,
    measured,
    measures,
    proved,
    scope,
    spent,
    threats,
)
from privet.reporting.facts import ModelAudit, Standing
from privet.reporting.markup import Html, element, joined, listed, paragraph, text
from privet.reporting.meaning import meaning
from privet.reporting.report import Report

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
    324: "Add your other measures. Whether those on the list are enough is not for an audit to say.",
    325: "Judge the severity: it follows from what being in the data says about a person, which an audit does not know.",
    326: "Judge the likelihood: it follows from these figures and from who can reach the model.",
}


def cnil_document(report: Report) -> str:
    """An assessment to import, with what the audit answers filled in, grounds as comments, and the rest left to the controller."""
    made = report.origin.created.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    kept = measures(report)
    plain = {
        "pia": _pia(report, made),
        "answers": [
            {
                "pia_id": _PIA,
                "reference_to": question,
                "data": _answer(question, report),
                "created_at": made,
                "updated_at": made,
                "id": place,
            }
            for place, question in enumerate((*_LABELS_OF_THE_AUDIT, *_GAUGES), start=1)
        ],
        "measures": [
            {
                "title": measure.title,
                "pia_id": _PIA,
                "content": listed(text(words) for words in measure.sentences),
                "placeholder": None,
                "created_at": made,
                "updated_at": made,
                "id": place,
            }
            for place, measure in enumerate(kept, start=1)
        ],
        "evaluations": [],
        "comments": [
            {
                "description": words,
                "pia_id": _PIA,
                "reference_to": question,
                "for_measure": False,
                "created_at": made,
                "id": place,
            }
            for place, (question, words) in enumerate(_comments(report).items(), start=1)
        ],
    }
    return json.dumps(plain, indent=2, allow_nan=False) + "\n"


def _comments(report: Report) -> dict[int, str]:
    """Beside each question: what the audit can add, and what is left to the controller."""
    return {
        question: " ".join([*_grounds(question, report), f"{CONTROLLER} {left}"])
        for question, left in LEFT.items()
    }


def _pia(report: Report, made: str) -> dict[str, Any]:
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


def _answer(question: int, report: Report) -> dict[str, Any]:
    if question in _LABELS_OF_THE_AUDIT:
        labels = threats(report) if question == 322 else [measure.title for measure in measures(report)]
        return {"text": None, "gauge": None, "list": labels}
    grounds = (
        _by_model(report, exposed)
        if question == 325
        else [paragraph(report.verdict), *_by_model(report, _likelihood), paragraph(UNTESTED)]
    )
    return {"text": joined(grounds), "gauge": 0, "list": []}


def _grounds(question: int, report: Report) -> list[str]:
    """What an audit can add to a question that it does not answer; nothing where the answer itself has it."""
    match question:
        case 111:
            return [f"The audit was about {_names(report)}.", UNTESTED]
        case 121:
            return [words for audit in report.audits for words in scope(audit)]
        case 122:
            several = len(report.audits) > 1
            told = [
                f"{audit.name}: {words}" if several else words
                for audit in report.audits
                for words in spent(audit)
            ]
            return ["Recorded in the ledger:", *told] if told else []
        case 321:
            return ["One impact is certain if the risk happens: it is known that a person's data was used."]
        case 323:
            return ["Whoever has the access to the model that the threats describe is a source of risk."]
        case _:
            return []


def _by_model(report: Report, told: Callable[[ModelAudit], list[str]]) -> list[Html]:
    """Sentences under the name of each model; without the name where there is one model only."""
    parts = []
    for audit in report.audits:
        sentences = told(audit)
        if sentences and len(report.audits) > 1:
            parts.append(element("p", element("em", text(audit.name))))
        if sentences:
            parts.append(listed(map(text, sentences)))
    return parts


def _likelihood(audit: ModelAudit) -> list[str]:
    if audit.standing is Standing.BROKEN:  # what its claim would mean for a person is not to be told
        return [*measured(audit), *proved(audit), *rests_on(audit)]
    proof = proved(audit)[:1] if audit.claim is not None else []
    return [*measured(audit), *proof, *rests_on(audit), *meaning(audit)]


def _names(report: Report) -> str:
    names = [f"“{audit.name}”" for audit in report.audits]
    return f"the model {names[0]}" if len(names) == 1 else f"the models {', '.join(names)}"
