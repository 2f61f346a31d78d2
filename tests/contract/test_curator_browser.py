"""The curator's pages in a real browser: with a script and without, by keyboard, on a phone, in light and dark."""

import importlib.util
import logging
import shutil
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the gateway needs the extra curator")
pytest.importorskip("selenium.webdriver", reason="selenium drives the browser")
pytest.importorskip("uvicorn", reason="the gateway needs the extra curator")
import uvicorn
from selenium import webdriver
from selenium.common.exceptions import WebDriverException

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    BROWSER is None or DRIVER is None, reason="no Chromium with its driver is installed"
)

_KNOWN = "privet_tests_curator_in_memory"
if _KNOWN not in sys.modules:
    _SPEC = importlib.util.spec_from_file_location(_KNOWN, Path(__file__).with_name("curator_in_memory.py"))
    sys.modules[_KNOWN] = importlib.util.module_from_spec(_SPEC)
    _SPEC.loader.exec_module(sys.modules[_KNOWN])
memory = sys.modules[_KNOWN]

FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A gateway that listens, and its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    gateway = memory.Gateway(
        tmp_path_factory.mktemp("site"), port=port, logins_per_minute=1000, questions_per_minute=1000
    )
    for one in memory.PEOPLE:
        gateway.parts.credentials.set_password(one.account, memory.PASSWORD)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    server = uvicorn.Server(
        uvicorn.Config(gateway.application, host="127.0.0.1", port=port, log_config=None, access_log=False,
                       http="h11", loop="asyncio", lifespan="off", ws="none", timeout_graceful_shutdown=1)
    )  # fmt: skip
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    gateway.site = f"http://127.0.0.1:{port}"
    yield gateway
    server.should_exit = True
    thread.join(10)
    gateway.http.close()
    gateway.engine.dispose()


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (*FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield started
    started.quit()


@pytest.fixture
def browser(driver, site):
    site.service.__init__()
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    look(driver, "light")
    screen(driver, 1200)
    driver.get(f"{site.site}/login")
    driver.delete_all_cookies()
    driver.get_log("browser")
    return driver


def look(driver, theme):
    features = [
        {"name": "prefers-color-scheme", "value": theme},
        {"name": "prefers-reduced-motion", "value": "reduce"},
    ]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def screen(driver, width):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def find(driver, selector):
    return driver.find_element("css selector", selector)


def press(driver, selector):
    """Press a button by keyboard, which also works without a script."""
    find(driver, selector).send_keys(webdriver.Keys.ENTER)


def wait_for(driver, selector, words):
    """The element, once the page that has it is there."""
    until = time.monotonic() + 20
    while True:
        try:
            element = find(driver, selector)
            if words in element.get_attribute("textContent"):
                return element
        except WebDriverException:
            pass
        assert time.monotonic() < until, (selector, words, driver.current_url)
        time.sleep(0.05)


def log_in(driver, site, who):
    driver.get(f"{site.site}/login")
    find(driver, "[name=name]").send_keys(who.name)
    find(driver, "[name=password]").send_keys(memory.PASSWORD + webdriver.Keys.ENTER)
    wait_for(driver, ".who", who.name)


def choose(driver, name, value):
    select = find(driver, f"[name={name}]")
    option = next(
        one
        for one in select.find_elements("css selector", "option")
        if value in (one.get_attribute("value"), one.text)
    )
    option.click()


@pytest.mark.parametrize("has_script", [True, False])
def test_from_the_login_to_an_answer(browser, site, has_script):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not has_script})
    log_in(browser, site, memory.ANN)
    press(browser, ".cards .primary")
    wait_for(browser, "h2", "Ask visits")
    choose(browser, "kind0", "mean")
    choose(browser, "column0", "age")
    choose(browser, "by0", "ward")
    press(browser, "button[value=add]")
    wait_for(browser, ".statistic + .statistic legend", "Statistic 2")
    assert find(browser, "[name=column0]").get_attribute("value") == "age"
    press(browser, ".act [value=quote]")
    wait_for(browser, "main", "This costs ε = 0.1")
    assert site.service.spent == 0
    press(browser, "form[data-once] button")
    wait_for(browser, ".crumb", "History")
    assert "/records/" in browser.current_url
    assert site.service.spent == pytest.approx(0.1)
    rows = browser.find_elements("css selector", ".numbers tbody tr")
    assert [row.find_element("css selector", "th").text for row in rows] == list(memory.WARDS)
    assert all(row.find_element("css selector", "svg.bar").is_displayed() for row in rows)
    assert "±" in find(browser, ".big").text
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_the_script_puts_away_what_a_statistic_does_not_have(browser, site):
    log_in(browser, site, memory.ANN)
    browser.get(f"{site.site}/datasets/visits")
    assert not find(browser, "[name=column0]").is_displayed()
    assert not find(browser, "[name=sql]").is_displayed()
    choose(browser, "kind0", "quantile")
    assert find(browser, "[name=column0]").is_displayed()
    assert find(browser, "[name=probability0]").is_displayed()
    assert not find(browser, "[name=by0]").is_displayed()
    find(browser, "[name=mode][value=sql]").click()
    assert find(browser, "[name=sql]").is_displayed()
    assert not find(browser, "[name=kind0]").is_displayed()


PAGES = {
    memory.ANN: ("/", "/datasets/visits", "/records", "/account"),
    memory.STEWARD: (
        "/steward",
        "/steward/datasets/visits",
        "/steward/datasets/visits/dpia.html",
        "/records",
        "/account",
    ),
}


LOOKS = (("light", 1200), ("dark", 390), ("light", 320))


def check_pages(browser, site, pages, looks):
    question = {"version": 1, "statistics": [{"kind": "histogram", "column": "ward"}], "epsilon": 0.1}
    record = site.service.ask(memory.ANN, "visits", question, idempotency_key="a" * 8)
    site.parts.requests.add(memory.ANN, "visits", epsilon=2.0, reason="w" * 300)
    for who, paths in pages.items():
        browser.delete_all_cookies()
        log_in(browser, site, who)
        for path in (*paths, f"/records/{record.id}"):
            for theme, width in looks:
                look(browser, theme)
                screen(browser, width)
                browser.get(site.site + path)
                inner = "return [document.documentElement.scrollWidth, innerWidth]"
                content, window = browser.execute_script(inner)
                assert content <= window == width, (path, width)
                ground = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
                brightness = sum(int(part) for part in ground[4:-1].split(",")) / 3
                assert (brightness > 240) == (theme == "light"), (path, ground)
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_pages_fit_a_phone_and_follow_the_theme(browser, site):
    check_pages(browser, site, {who: paths[1:2] for who, paths in PAGES.items()}, LOOKS[1:2])


@pytest.mark.slow
def test_every_page_fits_every_screen_in_both_themes(browser, site):
    check_pages(browser, site, PAGES, LOOKS)


def test_a_keyboard_is_enough(browser, site):
    log_in(browser, site, memory.ANN)
    browser.get(f"{site.site}/datasets/visits")
    find(browser, "body").send_keys(webdriver.Keys.TAB)
    skip = browser.switch_to.active_element
    assert skip.text == "Skip to the content"
    skip.send_keys(webdriver.Keys.ENTER)
    assert browser.switch_to.active_element.get_attribute("id") == "main"
    find(browser, "[name=epsilon]").send_keys(webdriver.Keys.ENTER)  # Enter in a field is the quote
    wait_for(browser, "main", "This costs")
    assert site.service.spent == 0
    reached = set()
    for _ in range(40):
        browser.switch_to.active_element.send_keys(webdriver.Keys.TAB)
        reached.add(browser.switch_to.active_element.text)
    assert {"Ask, and spend ε = 0.1", "Change the question", "Log out"} <= reached


def test_the_theme_button_is_remembered(browser, site):
    log_in(browser, site, memory.ANN)
    button = find(browser, "#theme")
    assert button.get_attribute("aria-pressed") == "false"
    button.click()
    browser.get(f"{site.site}/records")
    assert browser.execute_script("return document.documentElement.dataset.theme") == "dark"
    find(browser, "#theme").click()


def test_a_foreign_page_cannot_ask(browser, site):
    """A page of another origin sends the form with the browser's own cookies; the cookie stays at home."""
    log_in(browser, site, memory.ANN)
    form = (
        f"data:text/html,<form method=post action='{site.site}/datasets/visits/ask'><input name=kind0 value=count>"
        "<input name=epsilon value=0.1><button>x</button></form>"
    )
    browser.get(form)
    press(browser, "button")
    wait_for(browser, "h2", "")
    assert site.service.spent == 0
    assert "Log in" in browser.title or "Not allowed" in browser.title
