"""The curator's JSON interface: who may do what, what is refused and how, limits, headers, and what is never told."""

import importlib.util
import json
import logging
import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the gateway needs the extra curator")

from privet.curator.gateway.plain_json import check_plain, to_json
from privet.curator.gateway.settings import GatewaySettings, read_gateway_settings, read_secret
from privet.curator.refusals import CuratorReadOnly, CuratorUnavailable
from privet.errors import InvalidArgument, Unreadable

_SPEC = importlib.util.spec_from_file_location(
    "privet_tests_curator_in_memory", Path(__file__).with_name("curator_in_memory.py")
)
memory = importlib.util.module_from_spec(_SPEC)
sys.modules["privet_tests_curator_in_memory"] = memory
_SPEC.loader.exec_module(memory)

Gateway, COUNT, PASSWORD = memory.Gateway, memory.COUNT, memory.PASSWORD


@pytest.fixture
def gateway(tmp_path):
    made = Gateway(tmp_path)
    yield made
    made.http.close()
    made.engine.dispose()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """For what is refused, and so changes nothing."""
    made = Gateway(tmp_path_factory.mktemp("shared"), logins_per_minute=1000, questions_per_minute=1000)
    yield made
    made.http.close()
    made.engine.dispose()


def refusal(response, status, code):
    assert response.status_code == status, response.text
    body = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message"}
    assert body["error"]["code"] == code
    return body["error"]["message"]


def test_a_question_is_quoted_asked_and_remembered(gateway):
    quote = gateway.post(memory.ANN, "/datasets/visits/quote", {"question": COUNT}).json()
    assert quote["epsilon"] == 0.1
    assert quote["affordable"]
    assert gateway.service.spent == 0
    first = gateway.ask(memory.ANN, COUNT, "key-number-1").json()
    assert first["status"] == "answered"
    assert abs(first["answer"]["answers"][0]["value"] - 100) < 300
    assert gateway.ask(memory.ANN, COUNT, "key-number-1").json() == first
    again = gateway.ask(memory.ANN, COUNT, "key-number-2").json()
    assert again["stored"]
    assert again["answer"] == first["answer"]
    assert gateway.service.spent == pytest.approx(0.1)
    assert gateway.get(memory.ANN, f"/records/{first['id']}").json() == first
    assert [one["id"] for one in gateway.get(memory.ANN, "/records").json()["records"]] == [
        again["id"],
        first["id"],
    ]
    refusal(gateway.get(memory.BOB, f"/records/{first['id']}"), 422, "refused")


def test_what_failed_looks_like_what_was_answered(gateway):
    answered = gateway.ask(memory.ANN, COUNT, "key-number-1")
    gateway.service.fails = True
    failed = gateway.ask(memory.ANN, COUNT | {"epsilon": 0.2}, "key-number-2")
    assert failed.status_code == answered.status_code == 200
    assert set(failed.json()) == set(answered.json())
    assert failed.json()["status"] == "failed"
    assert failed.json()["answer"] is None


@pytest.mark.parametrize(
    "key", ["", "privet_000000000000_" + "a" * 43, "privet_x", "é" * 10, "privet_000000000000_a b"]
)
def test_nobody_asks_without_a_key(shared, key):
    headers = {"authorization": f"Bearer {key}".encode()} if key else {}
    for method, path in (
        ("GET", "/me"),
        ("GET", "/datasets"),
        ("POST", "/datasets/visits/ask"),
        ("GET", "/records"),
    ):
        refusal(shared.http.request(method, f"/api/v1{path}", headers=headers), 401, "not_logged_in")


def test_a_session_is_no_key_and_a_key_is_no_session(gateway):
    gateway.parts.credentials.set_password(1, PASSWORD)
    token = gateway.parts.sessions.start(memory.ANN)
    gateway.http.cookies.set("privet-session", token)
    refusal(gateway.http.get("/api/v1/me"), 401, "not_logged_in")
    gateway.http.cookies.clear()
    page = gateway.http.get("/account", headers=gateway.headers(memory.ANN), follow_redirects=False)
    assert page.headers["location"] == "/login"


def test_a_key_that_is_revoked_expired_or_of_a_closed_account_ends_at_once(gateway):
    assert gateway.get(memory.ANN, "/me").json() == {"name": "ann", "role": "analyst"}
    gateway.parts.keys.revoke(memory.ANN.account, gateway.key(memory.ANN).split("_")[1])
    refusal(gateway.get(memory.ANN, "/me"), 401, "not_logged_in")
    gateway.keys[memory.BOB] = gateway.parts.keys.issue(2, label="old", days=-1)
    refusal(gateway.get(memory.BOB, "/me"), 401, "not_logged_in")
    assert gateway.get(memory.STEWARD, "/me").status_code == 200
    gateway.parts.credentials.set_disabled(memory.STEWARD.account, disabled=True)
    refusal(gateway.get(memory.STEWARD, "/me"), 401, "not_logged_in")


def test_no_secret_is_in_the_database(gateway, tmp_path):
    key, token = gateway.key(memory.ANN), gateway.parts.sessions.start(memory.ANN)
    gateway.parts.credentials.set_password(1, PASSWORD)
    gateway.engine.dispose()
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"$argon2id$" in content
    for secret in (key.split("_", 2)[2], token, PASSWORD):
        assert secret.encode() not in content


ROLES = [
    ("GET", "/datasets", {"analyst", "steward", "auditor"}),
    ("GET", "/datasets/visits/budgets", {"analyst", "steward", "auditor"}),
    ("GET", "/datasets/visits/evidence", {"steward", "auditor"}),
    ("POST", "/datasets/visits/quote", {"analyst"}),
    ("POST", "/datasets/visits/ask", {"analyst"}),
    ("POST", "/datasets/visits/requests", {"analyst"}),
]


@pytest.mark.parametrize(("method", "path", "allowed"), ROLES)
def test_roles(shared, method, path, allowed):
    body = (
        {"question": COUNT} if not path.endswith("requests") else {"epsilon": 2.0, "reason": "a second wave"}
    )
    for who in (memory.ANN, memory.STEWARD, memory.AUDITOR):
        response = shared.http.request(
            method,
            f"/api/v1{path}",
            headers=shared.headers(who, {"idempotency-key": "key-number-1"}),
            json=body if method == "POST" else None,
        )
        if str(who.role) in allowed:
            assert response.is_success, response.text
        else:
            refusal(response, 403, "forbidden")
    assert shared.service.spent <= 0.1 + 1e-12


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "malformed"),
        ({"question": 1}, "malformed"),
        ({"question": COUNT, "more": 1}, "malformed"),
        ({"question": COUNT | {"epsilon": 5}}, "refused"),
        ({"question": COUNT | {"label": "a\0b"}}, "malformed"),
        ({"question": COUNT | {"deep": json.loads("[" * 40 + "]" * 40)}}, "malformed"),
        ({"question": {"version": 1, "large": 10**30}}, "malformed"),
    ],
)
def test_what_is_malformed_is_refused_and_not_repeated(shared, body, code):
    message = refusal(shared.post(memory.ANN, "/datasets/visits/quote", body), 422, code)
    assert message.count(". ") >= 1


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff",
        b'{"question": NaN}',
        b'{"question": {"a": "\\ud800"}}',
        b"[" * 60_000,
        b"1" * 5_000,
    ],
)
def test_what_is_no_json_is_refused(shared, content):
    headers = shared.headers(memory.ANN, {"content-type": "application/json"})
    refusal(
        shared.http.post("/api/v1/datasets/visits/quote", content=content, headers=headers), 422, "malformed"
    )


@pytest.mark.parametrize("key", [None, "short", "a" * 101, "with space 123", "semi;colon-12"])
def test_an_ask_needs_an_idempotency_key(shared, key):
    headers = shared.headers(memory.ANN, {} if key is None else {"idempotency-key": key})
    refusal(
        shared.http.post("/api/v1/datasets/visits/ask", json={"question": COUNT}, headers=headers),
        422,
        "malformed",
    )


def test_hidden_and_missing_datasets_are_alike(shared):
    answers = {
        shared.get(memory.ANN, f"/datasets/{name}").text for name in ("secret", "%00", "a%2Fb", "x" * 300)
    }
    assert len({json.loads(text)["error"]["code"] for text in answers}) <= 2
    refusal(shared.get(memory.ANN, "/datasets/secret"), 404, "not_found")
    refusal(shared.http.get("/api/v1/nothing"), 404, "not_found")
    assert shared.http.put("/api/v1/datasets").headers["allow"] == "GET"


def test_a_cap_refuses_and_spends_nothing(gateway):
    gateway.ask(memory.ANN, COUNT | {"epsilon": 1}, "key-number-1")
    gateway.ask(memory.ANN, COUNT | {"epsilon": 0.9}, "key-number-2")
    spent = gateway.service.spent
    refusal(gateway.ask(memory.ANN, COUNT | {"epsilon": 0.5}, "key-number-3"), 409, "budget_exceeded")
    assert gateway.service.spent == spent


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (CuratorReadOnly("It is behind. Look at it."), 409, "read_only"),
        (CuratorUnavailable("Not now. Try again."), 503, "unavailable"),
        (ValueError("a value of a row: 4711"), 500, "failed"),
        (RecursionError("4711"), 500, "failed"),
    ],
)
def test_errors_have_one_shape_and_no_text_of_their_own(gateway, monkeypatch, caplog, error, status, code):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(gateway.service, "quote", fail)
    caplog.set_level(logging.DEBUG)
    response = gateway.post(memory.ANN, "/datasets/visits/quote", {"question": COUNT})
    message = refusal(response, status, code)
    assert "4711" not in message + str(response.headers) + caplog.text
    assert "Traceback" not in response.text + caplog.text


def test_a_call_that_takes_too_long_is_left_to_itself(tmp_path, monkeypatch):
    gateway, freed = Gateway(tmp_path, longest_seconds=0.3), threading.Event()
    ask = gateway.service.ask

    def wait(*arguments, **named):
        record = ask(*arguments, **named)
        freed.wait(10)
        return record

    monkeypatch.setattr(gateway.service, "ask", wait)
    with gateway.http:
        message = refusal(gateway.ask(memory.ANN, COUNT, "key-number-1"), 503, "not_ready")
        assert "same idempotency key" in message
        freed.set()
        monkeypatch.setattr(gateway.service, "ask", ask)
        assert gateway.ask(memory.ANN, COUNT, "key-number-1").json()["status"] == "answered"
    assert gateway.service.spent == pytest.approx(0.1)
    gateway.engine.dispose()


def test_large_bodies_are_refused_before_they_are_read(gateway):
    response = gateway.post(memory.ANN, "/datasets/visits/quote", {"question": {"a": "x" * 70_000}})
    refusal(response, 413, "too_large")

    def pieces():
        for _ in range(100):
            yield b" " * 1_000

    headers = gateway.headers(memory.ANN, {"content-type": "application/json"})
    refusal(
        gateway.http.post("/api/v1/datasets/visits/quote", content=pieces(), headers=headers),
        413,
        "too_large",
    )


def test_too_many_questions_and_too_many_wrong_keys(tmp_path):
    gateway = Gateway(tmp_path, questions_per_minute=5, logins_per_minute=3)
    codes = [gateway.get(memory.ANN, "/me").status_code for _ in range(7)]
    assert codes == [200] * 5 + [429] * 2
    assert gateway.get(memory.BOB, "/me").status_code == 200
    wrong = {"authorization": "Bearer privet_000000000000_" + "a" * 43}
    assert [gateway.http.get("/api/v1/me", headers=wrong).status_code for _ in range(5)] == [401] * 3 + [
        429
    ] * 2
    gateway.engine.dispose()


def test_one_address_does_not_come_too_often(tmp_path):
    gateway = Gateway(tmp_path, requests_per_minute=3)
    assert [gateway.http.get("/login").status_code for _ in range(5)] == [200] * 3 + [429] * 2
    gateway.engine.dispose()


def test_headers_of_every_answer(shared):
    for response in (
        shared.http.get("/login"),
        shared.http.get("/api/v1/me"),
        shared.http.get("/nothing"),
        shared.get(memory.ANN, "/datasets"),
    ):
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe-inline" not in policy
        assert response.headers["cache-control"] == "no-store"
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "strict-transport-security" not in response.headers
        assert "etag" not in response.headers
    assert "max-age" in shared.http.get("/static/curator.css").headers["cache-control"]
    assert shared.http.get("/static/..%2Frendering.py").status_code == 404


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "evil.example:80", "user@evil.example"]
)
def test_other_hosts_are_refused(shared, host):
    """A name that is rebound to this machine must not lead a browser here."""
    refusal(shared.http.get("/api/v1/me", headers={"host": host}), 422, "malformed")


def test_the_log_has_no_value_of_a_request(gateway, caplog):
    caplog.set_level(logging.DEBUG)
    record = gateway.ask(memory.ANN, COUNT, "key-number-1").json()
    gateway.get(memory.ANN, f"/records/{record['id']}?dataset=visits")
    told = "\n".join(line.getMessage() for line in caplog.records if line.name.startswith("privet"))
    assert "/api/v1/records/{record_id} 200" in told
    for value in (
        record["id"],
        "key-number-1",
        gateway.key(memory.ANN),
        "visits",
        str(record["answer"]["answers"][0]["value"]),
    ):
        assert value not in told


def test_only_loopback_until_tls_or_a_proxy_is_named(tmp_path):
    with pytest.raises(InvalidArgument, match="loopback"):
        GatewaySettings(host="0.0.0.0")
    with pytest.raises(InvalidArgument, match="'hosts'"):
        GatewaySettings(host="0.0.0.0", proxies=("10.0.0.1",))
    settings = GatewaySettings(host="10.0.0.2", proxies=("10.0.0.1",), hosts=("curator.example.org",))
    assert settings.address == "https://curator.example.org"
    with pytest.raises(InvalidArgument, match="together"):
        GatewaySettings(certificate=tmp_path / "cert.pem")


def test_settings_are_read_strictly_and_secrets_come_from_files(tmp_path):
    with pytest.raises(InvalidArgument, match="'colour'"):
        read_gateway_settings({"gateway": {"colour": "red"}})
    with pytest.raises(InvalidArgument, match="another type"):
        read_gateway_settings({"gateway": {"port": "80"}})
    with pytest.raises(InvalidArgument, match="https"):
        read_gateway_settings({"openid": {"issuer": "http://example.org", "client": "privet"}})
    secret = tmp_path / "secret"
    secret.write_text("hidden\n")
    secret.chmod(0o644)
    with pytest.raises(InvalidArgument, match="chmod 600"):
        read_secret("PRIVET_X", secret)
    secret.chmod(0o600)
    settings = read_gateway_settings(
        {"openid": {"issuer": "https://login.example.org", "client": "privet", "secret_file": str(secret)}}
    )
    assert settings.openid.secret == "hidden"
    assert "hidden" not in repr(settings)
    assert read_secret("PRIVET_X", None, environment={"PRIVET_X": "there"}) == "there"
    with pytest.raises(Unreadable):
        read_secret("PRIVET_X", tmp_path / "missing")


def test_plain_json_is_strict_both_ways():
    for bad in (float("nan"), {"a": [float("inf")]}, {"\ud800": 1}, ["\0"], 2**63, ["x"] * 6_000):
        with pytest.raises(ValueError):
            check_plain(bad)
    assert check_plain({"a": [1, 2.5, None, True, "é"]}) == {"a": [1, 2.5, None, True, "é"]}
    assert json.loads(to_json({"error": float("inf"), "é": "\ud800"})) == {"error": "Infinity", "é": "\ud800"}


def test_tls_makes_cookies_safer(tmp_path):
    gateway = Gateway(tmp_path, proxies=("127.0.0.1",))
    response = gateway.http.get("/login")
    assert "strict-transport-security" in response.headers
    cookie = response.headers["set-cookie"]
    assert cookie.startswith("__Host-privet-login=")
    assert all(word in cookie for word in ("HttpOnly", "Secure", "SameSite=lax", "Path=/"))
    gateway.engine.dispose()
