"""OpenID Connect against a provider on this machine: one login that holds, and every lie that must not."""

import importlib.util
import sys
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("fastapi", reason="the gateway needs the extra curator")
pytest.importorskip("authlib", reason="OpenID Connect needs Authlib")

from joserfc.jwk import ECKey, OctKey

from privet.curator.accounts.openid import LoginRefused, OpenIdSettings
from privet.errors import InvalidArgument


def load(name):
    known = f"privet_tests_{name}"
    if known not in sys.modules:
        spec = importlib.util.spec_from_file_location(known, Path(__file__).with_name(f"{name}.py"))
        sys.modules[known] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[known])
    return sys.modules[known]


memory, local = load("curator_in_memory"), load("openid_provider")


@pytest.fixture
def provider():
    made = local.Provider()
    yield made
    made.close()


@pytest.fixture
def gateway(tmp_path, provider):
    settings = OpenIdSettings(issuer=provider.issuer, client=local.CLIENT, secret=local.SECRET)
    made = memory.Gateway(tmp_path, openid=settings, logins_per_minute=1000)
    made.parts.credentials.set_email(memory.ANN.account, "Ann@example.org")
    yield made
    made.http.close()
    made.engine.dispose()


def log_in(gateway, provider, **who):
    gone = gateway.http.get("/login/openid", follow_redirects=False)
    return gateway.http.get(provider.authorize(gone.headers["location"], **who), follow_redirects=False)


def test_a_login_through_the_provider(gateway, provider):
    assert log_in(gateway, provider).headers["location"] == "/"
    assert "ann" in gateway.http.get("/account").text


def test_the_address_counts_once_and_the_subject_from_then_on(gateway, provider):
    assert log_in(gateway, provider).status_code == 303
    gateway.http.cookies.clear()
    assert (
        log_in(gateway, provider, subject="s-2").status_code == 403
    )  # the address belongs to somebody else now
    assert log_in(gateway, provider, email="new@example.org").status_code == 303


@pytest.mark.parametrize("who", [{"email": "bob@example.org"}, {"verified": False}, {"email": None}])
def test_who_has_no_account_is_not_let_in(gateway, provider, who):
    page = log_in(gateway, provider, **who)
    assert page.status_code == 403
    assert "no account for you" in page.text


def test_a_closed_account_is_not_let_in(gateway, provider):
    log_in(gateway, provider)
    gateway.parts.credentials.set_disabled(memory.ANN.account, disabled=True)
    gateway.http.cookies.clear()
    assert log_in(gateway, provider).status_code == 403


LIES = {
    "another issuer": {"iss": "https://evil.example"},
    "another client": {"aud": "another"},
    "several audiences": {"aud": ["privet", "another"]},
    "expired": {"exp": int(time.time()) - 3600},
    "another nonce": {"nonce": "x"},
    "no nonce": {"nonce": None},
    "no subject": {"sub": None},
    "issued tomorrow": {"iat": int(time.time()) + 86_400},
}


@pytest.mark.parametrize("lie", LIES)
def test_a_token_that_lies_is_refused(gateway, provider, lie):
    provider.changes = LIES[lie]
    page = log_in(gateway, provider)
    assert page.status_code == 403
    assert "did not confirm" in page.text
    assert "privet-session" not in gateway.http.cookies


def test_a_token_of_another_key_or_of_a_weak_algorithm_is_refused(gateway, provider):
    provider.signing_key = ECKey.generate_key("P-256")
    assert log_in(gateway, provider).status_code == 403
    provider.signing_key, provider.header = OctKey.import_key(local.SECRET * 2), {"alg": "HS256"}
    assert log_in(gateway, provider).status_code == 403


def test_new_keys_of_the_provider_are_read(gateway, provider):
    log_in(gateway, provider)
    provider.key = ECKey.generate_key("P-256", parameters={"kid": "first"})
    assert log_in(gateway, provider).status_code == 303


def test_what_began_in_one_browser_ends_in_no_other_and_once(gateway, provider):
    gone = gateway.http.get("/login/openid", follow_redirects=False)
    back = provider.authorize(gone.headers["location"])
    cookies = dict(gateway.http.cookies)
    gateway.http.cookies.clear()
    assert gateway.http.get(back, follow_redirects=False).status_code == 403  # a foreign browser uses it up
    gateway.http.cookies.update(cookies)
    assert gateway.http.get(back, follow_redirects=False).status_code == 403
    assert gateway.http.get("/login/openid/back?state=x&code=y").status_code == 403
    assert gateway.http.get("/login/openid/back").status_code == 403


def test_it_goes_back_to_the_configured_address(gateway, provider):
    gone = gateway.http.get("/login/openid", headers={"host": "localhost"}, follow_redirects=False)
    asked = parse_qs(urlsplit(gone.headers["location"]).query)
    assert asked["redirect_uri"] == ["http://127.0.0.1:8443/login/openid/back"]


def test_a_provider_that_is_away_is_said_in_one_sentence(gateway, provider):
    provider.close()
    page = gateway.http.get("/login/openid")
    assert page.status_code == 403
    assert "did not confirm" in page.text


def test_a_provider_needs_tls():
    with pytest.raises(InvalidArgument, match="https"):
        OpenIdSettings(issuer="http://login.example.org", client="privet")
    assert "secret" not in repr(
        OpenIdSettings(issuer="https://a.example", client="privet", secret="hidden-one")
    )
    assert issubclass(LoginRefused, Exception)
