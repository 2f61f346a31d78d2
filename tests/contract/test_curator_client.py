"""The client against a gateway: the same answers as ``privet.release``, retries that are charged once, and what it refuses."""

import importlib.util
import sys
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the gateway needs the extra curator")
import httpx

from privet.curator import Client, CuratorFailed
from privet.errors import BudgetExceeded, InvalidArgument
from privet.releasing import Answer

_KNOWN = "privet_tests_curator_in_memory"
if _KNOWN not in sys.modules:
    _SPEC = importlib.util.spec_from_file_location(_KNOWN, Path(__file__).with_name("curator_in_memory.py"))
    sys.modules[_KNOWN] = importlib.util.module_from_spec(_SPEC)
    _SPEC.loader.exec_module(sys.modules[_KNOWN])
memory = sys.modules[_KNOWN]

QUESTION = {
    "statistics": [{"kind": "count"}, {"kind": "mean", "column": "age", "by": ["ward"]}],
    "epsilon": 0.2,
}


class Wire(httpx.BaseTransport):
    """Carries requests to the gateway, and loses or delays the answers that it is told to."""

    def __init__(self, gateway):
        self.gateway, self.trouble, self.sent = gateway, [], 0

    def handle_request(self, request):
        self.sent += 1
        trouble = self.trouble.pop(0) if self.trouble else None
        if trouble == "lost request":
            raise httpx.ConnectError("no route")
        if isinstance(trouble, int):
            return httpx.Response(trouble, json={"error": {"code": "x", "message": "Later. Try again."}})
        response = self.gateway.http.request(
            request.method,
            request.url.raw_path.decode(),
            headers=dict(request.headers) | {"host": "127.0.0.1"},
            content=request.read(),
        )
        if trouble == "lost answer":
            raise httpx.ReadError("broken")
        return httpx.Response(
            response.status_code, content=response.content, headers={"content-type": "application/json"}
        )


@pytest.fixture
def wire(tmp_path, monkeypatch):
    monkeypatch.setattr("privet.curator.client.time.sleep", lambda _: None)
    gateway = memory.Gateway(tmp_path)
    yield Wire(gateway)
    gateway.http.close()
    gateway.engine.dispose()


@pytest.fixture
def client(wire):
    made = Client("http://127.0.0.1:8443", key=wire.gateway.key(memory.ANN))
    made._http.close()
    made._http = httpx.Client(transport=wire, base_url="http://127.0.0.1/api/v1", headers=made._http.headers)
    with made:
        yield made


def test_quote_ask_and_history(client, wire):
    (dataset,) = client.datasets()
    assert (dataset.name, dataset.remaining) == ("visits", 1.0)
    quote = client.quote(QUESTION)
    assert quote.is_affordable
    assert list(quote.errors) == ["count", "mean 1"]
    asked = client.ask(QUESTION)
    count = asked["count"]
    assert isinstance(count, Answer)
    assert count.cost.epsilon == pytest.approx(0.1)
    assert [key for key, _ in asked["mean 1"].value] == list(memory.WARDS)
    again = client.ask(QUESTION)
    assert again.is_stored
    assert again["count"] == count
    assert client.quote(QUESTION).is_stored
    assert [one.id for one in client.history()] == [again.id, asked.id]
    assert client.record(asked.id).answers == asked.answers
    assert wire.gateway.service.spent == pytest.approx(0.2)


@pytest.mark.parametrize(
    "trouble", [["lost request"] * 3, ["lost answer"] * 3, [503, 429, 502], ["lost answer", 503]]
)
def test_a_call_that_breaks_off_is_tried_again_and_charged_once(client, wire, trouble):
    client.quote(QUESTION)
    wire.trouble = list(trouble)
    asked = client.ask(QUESTION)
    assert asked.status == "answered"
    assert not asked.is_stored
    assert wire.gateway.service.spent == pytest.approx(0.2)
    assert len(wire.gateway.service.records) == 1


def test_a_program_that_was_ended_asks_again_with_its_key(client, wire):
    first = client.ask(QUESTION, dataset="visits", idempotency_key="my-own-key-1")
    assert client.ask(QUESTION, dataset="visits", idempotency_key="my-own-key-1").id == first.id


def test_it_gives_up_in_the_end(client, wire):
    wire.trouble = ["lost request"] * 20
    with pytest.raises(CuratorFailed, match="ask again"):
        client.datasets()
    assert wire.sent == 6


def test_refusals_are_errors_of_privet(client):
    with pytest.raises(InvalidArgument, match="epsilon"):
        client.quote(QUESTION | {"epsilon": 7})
    with pytest.raises(InvalidArgument, match="nothing here"):
        client.quote(QUESTION, dataset="secret")
    with pytest.raises(InvalidArgument, match="Choose one"):
        client.ask(QUESTION)["nothing"]
    client.ask({"statistics": [{"kind": "count"}], "epsilon": 1.0})
    with pytest.raises(BudgetExceeded):
        client.ask({"statistics": [{"kind": "count"}], "epsilon": 0.9})


def test_what_failed_has_no_answers(client, wire):
    wire.gateway.service.fails = True
    asked = client.ask(QUESTION)
    assert (asked.status, asked.answers, repr(asked)) == ("failed", (), "failed; charged")


def test_a_request_for_budget_is_sent_once(client, wire):
    client.request_budget(epsilon=2.0, reason="a second wave", dataset="visits")
    wire.trouble = ["lost answer"]
    with pytest.raises(CuratorFailed):
        client.request_budget(epsilon=2.0, reason="a third wave", dataset="visits")
    assert len(wire.gateway.parts.requests.list_requests()) == 2


def test_a_notebook_shows_tables_that_escape(client, wire):
    wire.gateway.service.datasets = lambda who, real=wire.gateway.service.datasets: tuple(
        type(card)(name=card.name, description="<b>bold</b>", metadata=card.metadata, budgets=card.budgets)
        for card in real(who)
    )
    assert "&lt;b&gt;" in client.datasets()._repr_html_()
    asked = client.ask(QUESTION)
    assert asked._repr_html_().count("<tr>") == 5
    assert "ε = 0.2" in asked._repr_html_()
    assert "±" in client.quote(QUESTION)._repr_html_()


def test_a_key_does_not_travel_unencrypted(monkeypatch):
    with pytest.raises(InvalidArgument, match="https"):
        Client("http://curator.example.org", key="privet_x")
    with pytest.raises(InvalidArgument, match="address"):
        Client("curator.example.org", key="privet_x")
    monkeypatch.delenv("PRIVET_CURATOR_KEY", raising=False)
    with pytest.raises(InvalidArgument, match="PRIVET_CURATOR_KEY"):
        Client("https://curator.example.org")
    monkeypatch.setenv("PRIVET_CURATOR_KEY", "privet_secret")
    made = Client("https://curator.example.org")
    assert "secret" not in repr(made)
    made.close()
