"""The document that the CNIL's PIA software imports (github.com/LINCnil/pia): an impact assessment that has been begun.

The file has five keys: ``pia``, ``answers``, ``measures``, ``evaluations`` and ``comments``. An answer names its question by a whole
number (``reference_to``, as in the tool's ``pia_architecture.json``) and has a ``text`` of HTML, a ``list`` of labels and a ``gauge`` from
0 (not judged) to 4. The tool looks questions up by number, so a number that is written as text would not be found.

Three risks are asked about; an audit speaks to the first, illegitimate access to data. It gives the grounds for a severity and a
likelihood, and judges neither: both gauges stay at 0, and so does the evaluation, which is an evaluator's. Every question says what is
left to the controller. No fact on the processing is made up.
"""

import json
from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Any, Final

from privet.reporting.evidence import (
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

__all__ = ["QUESTIONS", "cnil_document"]

_PIA = 1

QUESTIONS: Final[Mapping[int, str]] = {
    111: "Name the processing, its purposes, what is at stake and where it is used.",
    112: "Name the controller, joint controllers and processors.",
    113: "Name the standards, codes of conduct and certifications that apply.",
    121: "List the personal data, its recipients, who has access, and how long it is kept.",
    122: "Describe the life of the data from its collection to its erasure.",
    123: "List what carries the data: systems, software, networks, people, paper.",
    211: "Say why the purposes are specified, explicit and legitimate.",
    212: "Say which legal basis makes the processing lawful.",
    213: "Say why each item of data is needed for the purposes.",
    214: "Say how the data is kept accurate and up to date.",
    215: "Say how long each item is kept, and why so long.",
    221: "Say how people are told about the processing.",
    222: "Say how consent is obtained, where it is the legal basis.",
    223: "Say how people exercise their rights of access and portability.",
    224: "Say how people exercise their rights of rectification and erasure, and what erasure means for a model that is trained.",
    225: "Say how people exercise their rights of restriction and objection.",
    226: "Say what each processor has undertaken, and in which contract.",
    227: "Name transfers out of the European Union, and how the data is protected there.",
    321: "Say what it means for a person if it becomes known that their data was used.",
    322: "Add the threats to the data themselves: theft, copies, access by staff.",
    323: "Say who has the access that these threats need.",
    324: "Add your other measures.",
    325: "Judge the severity: it follows from what being in the data says about a person, which an audit does not know.",
    326: "Judge the likelihood: it follows from these figures and from who can reach the model.",
    **{
        10 * risk + question: f"{asked} The audit did not look at {what}."
        for risk, what in ((33, "unwanted changes of data"), (34, "the loss of data"))
        for question, asked in enumerate(
            (
                "Name the impacts.",
                "Name the threats.",
                "Name the sources of risk.",
                "Name the measures.",
                "Judge the severity.",
                "Judge the likelihood.",
            ),
            start=1,
        )
    },
}
_LISTS = frozenset(10 * risk + question for risk in (32, 33, 34) for question in (1, 2, 3, 4))


def cnil_document(report: Report) -> str:
    """An assessment to import, with what the audit supports filled in and the rest marked for the controller."""
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
            for place, question in enumerate(QUESTIONS, start=1)
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
            for place, (question, words) in enumerate(_COMMENTS.items(), start=1)
        ],
    }
    return json.dumps(plain, indent=2, allow_nan=False) + "\n"


_COMMENTS = {
    324: "A measure on this list has been measured or proved. Whether it is enough is not for an audit to say.",
    325: "The gauge is not set: an audit cannot judge severity.",
    326: "The gauge is not set: the text gives the grounds, and the judgement is the controller's.",
}


def _pia(report: Report, made: str) -> dict[str, Any]:
    nobody = {"author_name": CONTROLLER, "evaluator_name": CONTROLLER, "validator_name": CONTROLLER}
    opinions = (
        "dpo_status",
        "dpo_opinion",
        "concerned_people_opinion",
        "concerned_people_status",
        "concerned_people_searched_opinion",
        "concerned_people_searched_content",
        "rejected_reason",
        "applied_adjustements",
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
    asked = QUESTIONS[question]
    if question in _LISTS:
        return {"text": None, "gauge": None, "list": [*_labels(question, report), f"{CONTROLLER} {asked}"]}
    supported = _supported(question, report)
    told = [element("p", element("strong", text("From the audit"))), *supported] if supported else []
    left = element("p", joined([element("strong", text(CONTROLLER)), text(asked)]))
    return {"text": joined([*told, left]), "gauge": 0, "list": []}


def _labels(question: int, report: Report) -> list[str]:
    """What an audit can put on a list of impacts, threats, sources or measures."""
    match question:
        case 321:
            return ["It becomes known that a person's data was used to train the model"]
        case 322:
            return threats(report)
        case 323:
            return ["Whoever has the access to the model that the threats describe"]
        case 324:
            return [measure.title for measure in measures(report)]
        case _:
            return []


def _supported(question: int, report: Report) -> list[Html]:
    """What an audit can put under a question; nothing where it knows nothing."""
    match question:
        case 111:
            return [paragraph(f"The audit was about {_names(report)}."), paragraph(UNTESTED)]
        case 121:
            return [listed(text(words) for audit in report.audits for words in scope(audit))]
        case 122:
            return _by_model(report, spent)
        case 325:
            return _by_model(report, exposed)
        case 326:
            return [paragraph(report.verdict), *_by_model(report, _likelihood), paragraph(UNTESTED)]
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
        return [*measured(audit), *proved(audit)]
    return [*measured(audit), *(proved(audit)[:1] if audit.claim is not None else []), *meaning(audit)]


def _names(report: Report) -> str:
    names = [f"“{audit.name}”" for audit in report.audits]
    return f"the model {names[0]}" if len(names) == 1 else f"the models {', '.join(names)}"
