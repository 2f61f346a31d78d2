"""The CNIL's PIA software, as its importer and its own rules stand: which fields it reads, and what it counts as answered.

Sources, read in 2026. The fields of a PIA: ``importData`` in ``src/app/services/pia.service.ts`` of LINCnil/pia, which copies them one by
one; the same names are in ``src/assets/files/2018-02-21-pia-example.json`` (commit 84d191b027d413a5a70003831eeae0cc499fecb9), which the tool
imports itself at its first start, and in ``pia_params`` of ``app/controllers/pias_controller.rb`` of LINCnil/pia-back (commit
e55d94ffda925df1b7fdf618ebe333f5efc9a72d). The questions and their kinds: ``src/assets/files/pia_architecture.json`` (commit
064157028c9b2b2fc3d031fe08a1ef17e87fc948). What counts as answered: ``answerIsValid``, and as a measure: ``measureIsValid``, in
``src/app/services/global-evaluation.service.ts`` (commit 00f12668cb962e80396018bdd794eaff820d0284). ``reference_to`` of an answer is a whole
number: ``db/migrate/20250408145426_update_reference_to_from_answers.rb`` of LINCnil/pia-back.
"""

import json
from datetime import datetime

import numpy as np
import pytest

from privet.adjacency import AddRemove
from privet.events import Gaussian
from privet.ledger import Ledger
from privet.pipeline import audit_scores
from privet.reporting.documents.cnil import cnil_document

TEXT = [111, 112, 113, 121, 122, 123, 211, 212, 213, 214, 215, 221, 222, 223, 224, 225, 226, 227]
LISTS = [10 * risk + question for risk in (32, 33, 34) for question in (1, 2, 3, 4)]
GAUGES = [10 * risk + question for risk in (32, 33, 34) for question in (5, 6)]

COPIED = {
    *("name", "category", "status", "created_at", "updated_at"),
    *("author_name", "evaluator_name", "validator_name"),
    *("dpo_status", "dpo_opinion", "dpos_names"),
    *("concerned_people_opinion", "concerned_people_status", "people_names"),
    *("concerned_people_searched_opinion", "concerned_people_searched_content"),
    *("rejection_reason", "applied_adjustments"),
}
MODEL = COPIED | {"id", "is_example", "is_archive", "progress", "structure_id"}  # src/app/models/pia.model.ts


def answered(answer):
    data, question = answer["data"], answer["reference_to"]
    if question in GAUGES:
        return bool(data["text"]) and (data["gauge"] or 0) > 0
    return bool(data["list"]) if question in LISTS else bool(data["text"])


@pytest.fixture(scope="module", params=["nothing is proved", "a ledger"])
def plain(request):
    generator = np.random.default_rng(0)
    ledger = None if request.param == "nothing is proved" else Ledger(AddRemove()).spend("all", Gaussian(1.0))
    report = audit_scores(generator.normal(1, 1, 300), generator.normal(0, 1, 300), ledger=ledger)
    return json.loads(cnil_document(report))


def test_the_questions_are_those_of_the_tool():
    assert len(TEXT) + len(LISTS) + len(GAUGES) == 36


def test_every_field_is_one_that_the_importer_reads(plain):
    assert list(plain) == ["pia", "answers", "measures", "evaluations", "comments"]
    assert COPIED <= set(plain["pia"]) <= MODEL
    assert {key for answer in plain["answers"] for key in answer} <= {
        *("pia_id", "reference_to", "data", "created_at", "updated_at", "id")
    }
    assert {key for measure in plain["measures"] for key in measure} <= {
        *("title", "pia_id", "content", "placeholder", "created_at", "updated_at", "id")
    }
    assert {key for comment in plain["comments"] for key in comment} <= {
        *("description", "pia_id", "reference_to", "for_measure", "created_at", "updated_at", "id")
    }


def test_only_what_the_audit_answers_counts_as_answered(plain):
    assert [answer["reference_to"] for answer in plain["answers"] if answered(answer)] == [322, 324]
    assert [answer["reference_to"] for answer in plain["answers"]] == [322, 324, 325, 326]
    for answer in plain["answers"]:
        assert type(answer["reference_to"]) is int
        assert set(answer["data"]) == {"text", "gauge", "list"}
        assert not answer["data"]["gauge"]  # nothing is judged for the controller
        assert all(isinstance(label, str) and label for label in answer["data"]["list"])
        datetime.fromisoformat(answer["created_at"])


def test_nobody_signs_and_nothing_is_decided(plain):
    """Nor does the tool enable the validation: that needs a data protection officer's name and opinion."""
    pia = plain["pia"]
    assert pia["author_name"] == pia["evaluator_name"] == pia["validator_name"] == ""
    unsaid = COPIED - {"name", "category", "status", "created_at", "updated_at"}
    assert not any(pia[name] for name in unsaid)
    assert pia["status"] == 0
    assert plain["evaluations"] == []
    assert "To be completed" not in json.dumps(plain["answers"]) + json.dumps(pia)


def test_measures_are_whole_and_on_the_list(plain):
    """A measure without a title or content would be taken for one that is not finished."""
    labels = {answer["reference_to"]: answer["data"]["list"] for answer in plain["answers"]}[324]
    assert [measure["title"] for measure in plain["measures"]] == labels
    assert all(measure["content"] for measure in plain["measures"])


def test_comments_stand_beside_questions_of_the_tool(plain):
    questions = [comment["reference_to"] for comment in plain["comments"]]
    assert set(questions) <= set(TEXT + LISTS + GAUGES)
    assert all(comment["description"] and not comment["for_measure"] for comment in plain["comments"])
