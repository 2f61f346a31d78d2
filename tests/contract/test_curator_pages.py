"""The curator's pages without a browser: logging in and out, forms that are not ours, roles, and what escapes."""

import importlib.util
import re
import sys
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the gateway needs the extra curator")

_SPEC = importlib.util.spec_from_file_location(
    "privet_tests_curator_in_memory", Path(__file__).with_name("curator_in_memory.py")
)
memory = sys.modules.get("privet_tests_curator_in_memory") or importlib.util.module_from_spec(_SPEC)
if "privet_tests_curator_in_memory" not in sys.modules:
    sys.modules["privet_tests_curator_in_memory"] = memory
    _SPEC.loader.exec_module(memory)

FORM = {
    "mode": "form",
    "kind0": "mean",
    "column0": "age",
    "by0": "ward",
    "price": "epsilon",
    "epsilon": "0.2",
}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    made = memory.Gateway(tmp_path_factory.mktemp("pages"), logins_per_minute=1000, questions_per_minute=1000)
    for one in memory.PEOPLE:
        made.parts.credentials.set_password(one.account, memory.PASSWORD)
    yield made
    made.http.close()
    made.engine.dispose()


@pytest.fixture
def http(gateway):
    gateway.service.__init__()
    gateway.http.cookies.clear()
    return gateway.http


def token(page):
    return unescape(re.search(r'name="csrf" value="([^"]*)"', page.text)[1])


def log_in(http, who, password=memory.PASSWORD):
    page = http.get("/login")
    data = {"name": who.name, "password": password, "csrf": token(page)}
    return http.post("/login", data=data, follow_redirects=False)


def start(http, who):
    assert log_in(http, who).headers["location"] == "/"
    return token(http.get("/account"))


def test_logging_in_and_out(http):
    csrf = start(http, memory.ANN)
    old = http.cookies["privet-session"]
    assert "Datasets you may ask" in http.get("/").text
    assert http.post("/logout", data={"csrf": csrf}, follow_redirects=False).headers["location"] == "/login"
    http.cookies.set("privet-session", old)
    assert http.get("/", follow_redirects=False).headers["location"] == "/login"


def test_a_login_gets_a_new_session_and_ends_the_old_one(http):
    start(http, memory.ANN)
    first = http.cookies["privet-session"]
    start(http, memory.ANN)
    assert http.cookies["privet-session"] != first
    http.cookies.clear()
    http.cookies.set("privet-session", first)
    assert http.get("/", follow_redirects=False).status_code == 303


def test_wrong_names_and_wrong_passwords_are_told_alike(http, gateway):
    answers = [
        log_in(http, memory.ANN, "wrong-password"),
        log_in(http, memory.Principal(account=9, name="ann2", role=memory.Role.ANALYST)),
    ]
    texts = [re.sub(r'value="[^"]*"', "", answer.text) for answer in answers]
    assert texts[0] == texts[1]
    assert {answer.status_code for answer in answers} == {403}
    assert [kind for _, kind, _ in gateway.actions.events[-2:]] == ["login refused"] * 2
    assert "privet-session" not in http.cookies


def test_logins_are_limited_by_name_and_by_client(tmp_path):
    gateway = memory.Gateway(tmp_path, logins_per_minute=3)
    codes = [log_in(gateway.http, memory.ANN, "wrong-password").status_code for _ in range(5)]
    assert codes == [403] * 3 + [429] * 2
    gateway.engine.dispose()


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"content-type": "text/plain"},
        {"content-type": "multipart/form-data; boundary=x"},
    ],
)
def test_a_form_of_another_page_does_nothing(http, gateway, headers):
    csrf = start(http, memory.ANN)
    content = f"csrf={csrf}&mode=form&kind0=count&price=epsilon&epsilon=0.1&key=abcdefgh"
    sent = {"content-type": "application/x-www-form-urlencoded"} | headers
    assert http.post("/datasets/visits/ask", content=content, headers=sent).status_code == 403
    assert gateway.service.spent == 0


FORMS = [
    "/datasets/visits",
    "/datasets/visits/ask",
    "/datasets/visits/requests",
    "/logout",
    "/account/keys",
    "/account/keys/revoke",
    "/account/password",
]


@pytest.mark.parametrize("path", FORMS)
@pytest.mark.parametrize("csrf", [None, "", "x" * 43, "é"])
def test_every_form_needs_the_token_of_its_session(http, gateway, path, csrf):
    start(http, memory.ANN)
    data = (
        FORM
        | {"action": "quote", "reason": "x", "key": "abcdefgh"}
        | ({} if csrf is None else {"csrf": csrf})
    )
    assert http.post(path, data=data, follow_redirects=False).status_code == 403
    assert gateway.service.spent == 0
    assert http.get("/", follow_redirects=False).status_code == 200


def test_the_token_of_another_session_does_not_do(http):
    other = start(http, memory.BOB)
    http.cookies.clear()
    start(http, memory.ANN)
    assert http.post("/logout", data={"csrf": other}).status_code == 403


def test_quote_then_ask_then_the_answer(http, gateway):
    csrf = start(http, memory.ANN)
    quote = http.post("/datasets/visits", data=FORM | {"csrf": csrf, "action": "quote"})
    assert "This costs ε = 0.2" in unescape(quote.text)
    assert gateway.service.spent == 0
    hidden = {
        unescape(a): unescape(b)
        for a, b in re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', quote.text)
    }
    answers = [http.post("/datasets/visits/ask", data=hidden) for _ in range(2)]  # a second click
    assert answers[0].url == answers[1].url
    assert gateway.service.spent == pytest.approx(0.2)
    shown = unescape(answers[0].text)
    assert all(ward in shown for ward in memory.WARDS)
    assert shown.count('<svg class="bar"') == 3
    assert http.get(f"{answers[0].url.path}/answer.json").json()["status"] == "answered"
    assert "mean of age by ward" in http.get("/records").text


def test_a_refused_question_keeps_the_form(http, gateway):
    csrf = start(http, memory.ANN)
    for bad in ({"epsilon": "much"}, {"epsilon": "7"}, {"column0": "ward"}, {"kind0": "<script>"}):
        page = http.post("/datasets/visits", data=FORM | bad | {"csrf": csrf, "action": "quote"})
        assert page.status_code == 422
        assert "Nothing was spent" in page.text
        assert "<script>" not in page.text.replace('<script src="', "")
        assert '<option value="mean" selected>' in page.text or "kind0" in bad
    more = http.post("/datasets/visits", data=FORM | {"csrf": csrf, "action": "add"})
    assert 'name="kind1"' in more.text
    assert gateway.service.spent == 0


def test_what_failed_says_one_sentence(http, gateway):
    csrf = start(http, memory.ANN)
    gateway.service.fails = True
    page = http.post("/datasets/visits/ask", data=FORM | {"csrf": csrf, "key": "abcdefgh"})
    assert "failed and was charged" in page.text


def test_words_of_the_steward_and_of_analysts_are_escaped(http):
    csrf = start(http, memory.ANN)
    assert "where the &lt;b&gt;person&lt;/b&gt; lay" in http.get("/datasets/visits").text
    reason = "<img src=x onerror=alert(1)>"
    http.post("/datasets/visits/requests", data={"csrf": csrf, "epsilon": "2", "reason": reason})
    http.cookies.clear()
    start(http, memory.STEWARD)
    for path in ("/steward", "/steward/datasets/visits"):
        assert reason not in http.get(path).text
        assert "&lt;img src=x" in http.get(path).text


def test_a_steward_grants_what_was_asked_for(http, gateway):
    csrf = start(http, memory.ANN)
    http.post("/datasets/visits/requests", data={"csrf": csrf, "epsilon": "2.5", "reason": "a second wave"})
    http.cookies.clear()
    (wanted,) = [one for one in gateway.parts.requests.list_requests() if one.reason == "a second wave"]
    csrf = start(http, memory.AUDITOR)
    assert (
        http.post(f"/steward/requests/{wanted.id}", data={"csrf": csrf, "decision": "grant"}).status_code
        == 403
    )
    http.cookies.clear()
    csrf = start(http, memory.STEWARD)
    for _ in range(2):  # a second click changes nothing
        http.post(f"/steward/requests/{wanted.id}", data={"csrf": csrf, "decision": "grant"})
    grants = [event for event in gateway.actions.events if event[1] == "grant"]
    assert grants == [("stella", "grant", {"dataset": "visits", "analyst": "ann", "epsilon": 2.5})]
    assert gateway.parts.requests.find(wanted.id).granted


PAGES = {
    "analyst": ["/", "/datasets/visits", "/records", "/account"],
    "steward": [
        "/steward",
        "/steward/datasets/visits",
        "/steward/datasets/visits/evidence.json",
        "/steward/datasets/visits/dpia.html",
        "/steward/datasets/visits/opendp.json",
        "/records",
        "/account",
    ],
}


def test_who_sees_which_page(http):
    for who in (memory.ANN, memory.STEWARD, memory.AUDITOR):
        http.cookies.clear()
        start(http, who)
        mine = PAGES["analyst" if who is memory.ANN else "steward"]
        for path in mine:
            assert http.get(path).status_code == 200, path
        for path in set(PAGES["steward" if who is memory.ANN else "analyst"]) - set(mine):
            page = http.get(path, follow_redirects=False)
            assert page.status_code == (303 if path == "/" else 403 if who is memory.ANN else 200), path
    csrf = token(http.get("/account"))
    assert http.post("/datasets/visits/ask", data=FORM | {"csrf": csrf, "key": "abcdefgh"}).status_code == 403


def test_nobody_sees_a_page_without_a_session(http):
    for path in {path for paths in PAGES.values() for path in paths}:
        assert http.get(path, follow_redirects=False).headers["location"] == "/login"


def test_a_key_is_shown_once(http, gateway):
    csrf = start(http, memory.BOB)
    page = http.post("/account/keys", data={"csrf": csrf, "label": "notebook", "days": "30"})
    key = re.search(r"privet_[0-9a-f]{12}_[\w-]{43}", page.text)[0]
    assert gateway.parts.keys.verify(key) == memory.BOB
    assert key not in http.get("/account").text
    http.post("/account/keys/revoke", data={"csrf": csrf, "id": key.split("_")[1]})
    assert gateway.parts.keys.verify(key) is None


def test_a_new_password_ends_all_sessions(http, gateway):
    csrf = start(http, memory.BOB)
    elsewhere = gateway.parts.sessions.start(memory.BOB)
    data = {"csrf": csrf, "old": memory.PASSWORD, "new": "another-long-password"}
    assert http.post("/account/password", data=data | {"old": "wrong"}).status_code == 403
    assert http.post("/account/password", data=data | {"new": "short"}).status_code == 422
    assert http.post("/account/password", data=data, follow_redirects=False).headers["location"] == "/login"
    assert gateway.parts.sessions.find(elsewhere) is None
    assert log_in(http, memory.BOB).status_code == 403
    assert log_in(http, memory.BOB, "another-long-password").status_code == 303


class Attributes(HTMLParser):
    """Collects what could run or fetch something."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        names = dict(attributes)
        outside = [
            value
            for name, value in attributes
            if name in ("src", "href", "action") and not value.startswith(("/", "#"))
        ]
        own = [name for name in names if name.startswith("on") or name == "style"]
        if (
            own
            or outside
            or tag in ("style", "iframe", "object", "base")
            or (tag == "script" and "src" not in names)
        ):
            self.found.append((tag, attributes))


def test_no_page_has_a_script_or_a_style_of_its_own_or_fetches_from_elsewhere(http):
    for who in (memory.STEWARD, memory.ANN):
        http.cookies.clear()
        start(http, who)
        for path in PAGES[str(who.role)]:
            parser = Attributes()
            parser.feed(http.get(path).text)
            assert parser.found == [], path
