"""Generated requests over HTTP, by the interface's own description: no 500, no traceback, no answer of another shape.

The same requests go to two curators whose tables differ in one person: status, shape, message and charge are the same.
"""

import importlib.util
import json
import os
import sys
import warnings
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

pytest.importorskip("fastapi", reason="the gateway needs the extra curator")
pytest.importorskip("schemathesis", reason="schemathesis draws the requests")

import requests
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance
from tests.laws.curator_questions import SQL_QUESTIONS, TABLE_QUESTIONS
from tests.laws.test_curator_neighbours import ODD, shape
from tests.unit.curator_tables import EMPTY, patients, visits, write_clinic

from privet.curator.questions.planner import MetadataPlanner
from privet.curator.refresh import RefreshPolicy
from privet.curator.storage import DatabaseCurator, NoHeadExport, Stewardship
from privet.curator.worker.answering import TableWorker
from privet.curator.worker.data_sources import DataSources
from privet.randomness import SeededNoise
from privet.releasing import Budget

LONG = int(os.environ.get("PRIVET_CURATOR_REQUESTS", "20000"))
_KNOWN = "privet_tests_curator_in_memory"
if _KNOWN not in sys.modules:
    _SPEC = importlib.util.spec_from_file_location(
        _KNOWN, Path(__file__).parents[1] / "contract" / "curator_in_memory.py"
    )
    sys.modules[_KNOWN] = importlib.util.module_from_spec(_SPEC)
    _SPEC.loader.exec_module(sys.modules[_KNOWN])
memory = sys.modules[_KNOWN]

SHAPES = [content_type_conformance, response_schema_conformance]
HOST = "http://127.0.0.1"
EXPECTED = {200, 202, 401, 403, 404, 405, 408, 409, 413, 422, 429, 503}
QUIET = [
    HealthCheck.too_slow,
    HealthCheck.function_scoped_fixture,
    HealthCheck.filter_too_much,
    HealthCheck.data_too_large,
]
FAST = {
    "suppress_health_check": QUIET,
    "deadline": None,
    "phases": [Phase.explicit, Phase.generate],
    "database": None,
}


class RealGateway(memory.Gateway):
    """The gateway over a curator with a database, a planner and a worker in this process."""

    def __init__(self, folder, frame):
        super().__init__(folder, questions_per_minute=10**6, logins_per_minute=10**6)
        path = write_clinic(folder, frame, patients())
        planner = MetadataPlanner.of_file(path)
        worker = TableWorker(planner.stewardship, DataSources(b"s" * 32), noise=SeededNoise(7))
        self.real = DatabaseCurator.open(
            f"sqlite:///{folder}/ledger.db", planner=planner, worker=worker, heads=NoHeadExport()
        )
        stewardship, metadata = (
            Stewardship(self.real.database, NoHeadExport()),
            planner.stewardship.find("visits"),
        )
        stewardship.add_dataset(
            "visits", fingerprint=worker.fingerprint("visits"), adjacency=metadata.adjacency, unit_column=metadata.unit,
            cap=Budget(epsilon=100.0, delta=1e-4), refresh=RefreshPolicy.FROZEN,
        )  # fmt: skip
        for person in memory.PEOPLE:
            assert stewardship.add_account(person.name, person.role) == person
        stewardship.grant("ann", "visits", cap=None)
        object.__setattr__(self.parts, "service", self.real)
        self.parts.actions.note = lambda *_: None

    def reached(self):
        return [state.reached for state in self.real.budgets(memory.STEWARD, "visits")]

    def close(self):
        self.http.close()
        self.real.close()
        self.engine.dispose()


@pytest.fixture(scope="module")
def neighbours(tmp_path_factory):
    usual = visits().select(pl.col(name).cast(kind) for name, kind in EMPTY.items())
    made = [
        RealGateway(tmp_path_factory.mktemp(f"table{number}"), frame)
        for number, frame in enumerate((usual, pl.concat([usual, ODD])))
    ]
    object.__setattr__(made[1].parts, "keys", made[0].parts.keys)
    yield made
    for one in made:
        one.close()


def description(gateway):
    return gateway.http.get("/api/v1/openapi.json").json()


def send(gateway, request):
    """One generated request, as it is."""
    sent = gateway.http.request(
        request.method,
        request.url,
        headers=dict(request.headers) | {"host": "127.0.0.1"},
        content=request.body,
    )
    return sent


def comparable(response):
    """What must be the same on both tables."""
    body = response.json()
    if "answer" in body or "records" in body:
        for record in body.get("records", [body]):
            for name in ("id", "asked_at"):
                record[name] = None
            for answer in (record["answer"] or {}).get("answers", []):
                if answer["threshold"] is not None or "top" in answer["label"]:
                    answer["value"] = answer["error"] = (
                        None  # keys that were found are noisy answers themselves
                    )
        return response.status_code, shape(body)
    if body.get("format") == "privet-curator-evidence":  # with random numbers of ledgers in it
        body |= {"lineage": None, "head": None, "ledger": sorted(body["ledger"])}
    return response.status_code, body


def check_both(neighbours, request):
    answers = [send(gateway, request) for gateway in neighbours]
    for answer in answers:
        assert answer.status_code in EXPECTED, (request.method, request.url, request.body, answer.text)
        assert answer.headers["content-type"] == "application/json"
        assert "Traceback" not in answer.text
    assert comparable(answers[0]) == comparable(answers[1])
    assert neighbours[0].reached() == neighbours[1].reached()
    return answers[0]


def check_generated(neighbours, examples, people):
    """Requests of every address: what the description allows, and what it does not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = schemathesis.openapi.from_dict(description(neighbours[0]))
        operations = [operation.ok() for operation in loaded.get_all_operations()]
        assert len(operations) >= 10
        modes = (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE)
        for operation in operations:
            for mode in modes:
                for who in people:
                    _check_operation(neighbours, operation, mode, who, examples)


def _check_operation(neighbours, operation, mode, who, examples):
    @given(case=operation.as_strategy(generation_mode=mode), is_known=st.booleans())
    @settings(max_examples=examples, **FAST)
    def run(case, is_known):
        if is_known and "dataset" in (case.path_parameters or {}):
            case.path_parameters["dataset"] = "visits"
        headers = {"authorization": f"Bearer {neighbours[0].key(who)}"}
        request = _prepare(case.as_transport_kwargs(base_url=HOST, headers=headers))
        if request is not None:
            answer = check_both(neighbours, request)
            case.validate_response(answer, checks=[not_a_server_error], additional_checks=SHAPES)

    run()


def _prepare(prepared):
    try:
        return requests.Request(**{
            name: value for name, value in prepared.items()
            if name in ("method", "url", "headers", "files", "data", "json", "params", "auth", "cookies")
        }).prepare()  # fmt: skip
    except (ValueError, UnicodeError, requests.RequestException):
        return None  # what no client can send


def test_generated_requests_on_neighbouring_tables(neighbours):
    check_generated(neighbours, 2, [memory.ANN])


@given(
    question=st.one_of(TABLE_QUESTIONS, SQL_QUESTIONS),
    key=st.integers(0, 10**6),
    verb=st.sampled_from(["quote", "ask"]),
)
@settings(max_examples=25, suppress_health_check=QUIET)
def test_questions_on_neighbouring_tables(neighbours, question, key, verb):
    check_question(neighbours, question, key, verb)


def check_question(neighbours, question, key, verb):
    try:
        body = json.dumps({"question": question}).encode()
    except ValueError:
        return
    headers = {
        "authorization": f"Bearer {neighbours[0].key(memory.ANN)}", "content-type": "application/json",
        "idempotency-key": f"key-number-{key}",
    }  # fmt: skip
    url = f"{HOST}/api/v1/datasets/visits/{verb}"
    check_both(neighbours, requests.Request("POST", url, headers=headers, data=body).prepare())


@pytest.mark.slow
def test_many_generated_requests_on_neighbouring_tables(neighbours):
    check_generated(neighbours, max(LONG // 120, 10), [memory.ANN, memory.STEWARD])


@pytest.mark.slow
@given(
    question=st.one_of(TABLE_QUESTIONS, SQL_QUESTIONS),
    key=st.integers(0, 10**6),
    verb=st.sampled_from(["quote", "quote", "ask"]),
)
@settings(max_examples=LONG, suppress_health_check=QUIET)
def test_many_questions_on_neighbouring_tables(neighbours, question, key, verb):
    check_question(neighbours, question, key, verb)
