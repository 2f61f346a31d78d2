"""The page in a real browser: charts are drawn, nothing is asked of the network, themes, phones, paper and keyboards work."""

import json
import shutil
import time

import numpy as np
import pytest

from privet.adjacency import AddRemove
from privet.auditing import OneRun, leakage_by_group, measure, most_at_risk
from privet.checks import Check, Outcome
from privet.guarantees import Guarantee, PairCurve
from privet.reporting import AttackResult, ModelAudit, Origin, Report
from privet.reporting.facts import Harm
from privet.scores import Scores
from privet.views import Adversary

pytest.importorskip("plotly", reason="the page needs plotly")
webdriver = pytest.importorskip("selenium.webdriver", reason="selenium drives the browser")
BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    BROWSER is None or DRIVER is None, reason="no Chromium with its driver is installed"
)

FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage"
)
HOSTILE = "<b>b</b></script><img src=x onerror=alert(1)>"
MARKS = "[...document.querySelectorAll('.chart')].filter(c => c.offsetWidth)"


def audited(name, shift, *, epsilon=None, count=1200, who=True):
    values = np.random.default_rng(1).normal(size=2 * count)
    results = []
    claim = None if epsilon is None else Guarantee(PairCurve(epsilon, 1e-5), AddRemove(), "claim")
    for attack, strength in (("loss", 0.5), ("RMIA", 1.0)):
        scores = Scores.of(values[:count] + strength * shift, values[count:], attack)
        adversary = Adversary(sees="the confidence", knows="the record", wants="whether it was trained on")
        finding = OneRun().test(scores, claim, delta=1e-5)
        results.append(
            AttackResult(
                adversary=adversary, scores=scores, leakage=measure(scores), finding=finding, method="one run"
            )
        )
    harm = None
    if who:
        risk = most_at_risk(scores)
        names = np.where(np.arange(2 * count) % 3 == 0, "a group with a rather long name", "south")
        harm = Harm(
            attack="RMIA",
            at_risk=risk,
            names=tuple(str(place) for place in risk.records),
            classes=leakage_by_group(scores, np.arange(2 * count) % 2),
            groups=leakage_by_group(scores, names),
        )
    checks = (
        Check(name="enough records", outcome=Outcome.PASSED, finding="There are."),
        Check(name="copies", outcome=Outcome.WARNED, finding="Some are equal.", advice="Remove them."),
    )
    return ModelAudit(
        name=name,
        delta=1e-5,
        results=tuple(results),
        claim=claim,
        train_accuracy=0.9,
        test_accuracy=0.8 - 0.02 * (epsilon or 0),
        checks=checks,
        harm=harm,
    )


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    audits = (audited("plain", 1.5), audited(HOSTILE, 0.0, epsilon=1.0), audited("noisy", 0.4, epsilon=3.0))
    report = Report(audits=audits, origin=Origin(command="privet demo", version="0", seed=1))
    return report.save(tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (*FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield started
    started.quit()


@pytest.fixture
def browser(driver):
    """The browser as it is when it starts."""
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    look(driver, "light")
    screen(driver, 1200)
    driver.get("about:blank")
    driver.get_log("browser")
    driver.get_log("performance")
    return driver


def look(driver, theme, media=""):
    features = [
        {"name": "prefers-color-scheme", "value": theme},
        {"name": "prefers-reduced-motion", "value": "reduce"},
    ]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})


def screen(driver, width):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def opened(driver, path):
    driver.get(path.as_uri())
    drawn(driver)


def drawn(driver):
    """Wait until all charts that are shown have been drawn in the theme of the moment."""
    until = time.monotonic() + 20
    script = f"return {MARKS}.every(c => c.dataset.drawn === document.documentElement.dataset.theme)"
    while not driver.execute_script(script):
        assert time.monotonic() < until, "the charts were not drawn within 20 seconds"
        time.sleep(0.05)


def tabs(driver):
    return driver.find_elements("css selector", "[role=tab]")


def test_charts_draw_without_errors_and_without_the_network(browser, several):
    opened(browser, several)
    counted = 0
    for tab in tabs(browser):
        tab.click()
        drawn(browser)
        shown = browser.execute_script(
            f"return {MARKS}.map(c => [c.id, c.querySelectorAll('svg.main-svg path').length, c.offsetWidth, "
            f"Math.max(...[...c.querySelectorAll('svg.main-svg')].map(s => s.getBoundingClientRect().width))])"
        )
        assert all(paths >= 3 for _, paths, _, _ in shown), shown
        assert all(abs(drawing - box) <= 1 for _, _, box, drawing in shown), shown
        counted += sum(name.startswith("model-") and "models" not in name for name, *_ in shown)
    assert counted == 3 * 3
    assert browser.get_log("browser") == []
    asked = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    urls = {m["params"]["request"]["url"] for m in asked if m["method"] == "Network.requestWillBeSent"}
    assert {url for url in urls if not url.startswith(("data:", "blob:"))} == {several.as_uri()}
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0


def test_a_name_stays_a_name(browser, several):
    opened(browser, several)
    tabs(browser)[1].click()
    drawn(browser)
    assert browser.find_elements("css selector", "img, [onerror]") == []
    assert browser.find_element("css selector", "#model-1 h2").text == HOSTILE
    ticks = browser.execute_script(
        "return [...document.querySelectorAll('#models-epsilon .ytick text')].map(t => t.textContent)"
    )
    assert ticks[0] == "plain"
    assert len(ticks[1]) > 20
    assert HOSTILE.startswith(ticks[1].rstrip("…"))


def test_what_is_forbidden_is_forbidden(browser, several):
    """The policy of the page holds against what a script in it would try."""
    opened(browser, several)
    browser.execute_script(
        "const i = new Image(); i.src = 'https://example.org/x.png'; document.body.append(i);"
        "const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s);"
        "fetch('https://example.org/').catch(() => 0);"
    )
    assert browser.execute_script("return window.ran") is None
    told = " ".join(entry["message"] for entry in browser.get_log("browser"))
    assert "img-src" in told
    assert "script-src" in told
    assert "connect" in told


def test_both_themes_and_the_switch(browser, several):
    ground = "return getComputedStyle(document.body).backgroundColor"
    line = "return getComputedStyle(document.querySelector('#model-0-roc-chart .xaxislayer-above text')).fill"
    seen = {}
    for theme in ("light", "dark"):
        look(browser, theme)
        opened(browser, several)
        seen[theme] = (browser.execute_script(ground), browser.execute_script(line))
    assert brightness(seen["light"][0]) > 240
    assert brightness(seen["dark"][0]) < 40
    assert brightness(seen["light"][1]) < 130 < brightness(seen["dark"][1])
    for theme, other in (("dark", "light"), ("light", "dark")):
        look(browser, theme)
        opened(browser, several)
        switch = browser.find_element("id", "theme")
        assert switch.get_attribute("aria-pressed") == str(theme == "dark").lower()
        switch.click()
        drawn(browser)
        assert switch.get_attribute("aria-pressed") == str(other == "dark").lower()
        assert browser.execute_script(line) == seen[other][1]
        assert browser.execute_script(ground) == seen[other][0]


def brightness(colour):
    return sum(float(part) for part in colour.split("(")[1].rstrip(")").split(",")[:3]) / 3


@pytest.mark.parametrize("width", [360, 768])
def test_nothing_is_wider_than_a_phone(browser, several, width):
    screen(browser, width)
    opened(browser, several)
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    for tab in tabs(browser):
        browser.execute_script("arguments[0].click()", tab)
        drawn(browser)
        inside = "return [document.documentElement.scrollWidth, innerWidth]"
        scrolled, wide = browser.execute_script(inside)
        assert scrolled <= wide == width
        widths = browser.execute_script(
            f"return {MARKS}.map(c => c.querySelector('svg').getBoundingClientRect().right)"
        )
        assert max(widths) <= width


def test_a_phone_shows_every_column_of_the_comparison(browser, several):
    """As one card for each model; any other table that is wider than the screen says that it scrolls."""
    screen(browser, 390)
    opened(browser, several)
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    cells = browser.execute_script(
        "return [...document.querySelectorAll('.overview td')].map(c => "
        "[c.getBoundingClientRect().left, c.getBoundingClientRect().right, c.dataset.column, getComputedStyle(c, '::before').content])"
    )
    assert len(cells) == 3 * 7
    for left, right, column, shown in cells:
        assert 0 <= left < right <= 390
        assert column
        assert shown == f'"{column}"'
    browser.execute_async_script(
        "const done = arguments[0]; requestAnimationFrame(() => setTimeout(done, 50))"
    )
    hints = browser.execute_script(
        "return [...document.querySelectorAll('.scrolls')].filter(b => b.offsetWidth).map(b => "
        "[b.scrollWidth > b.clientWidth + 1, getComputedStyle(b, '::before').content.includes('Scroll sideways')])"
    )
    assert any(wide for wide, _ in hints)
    assert all(wide == hinted for wide, hinted in hints)


def test_paper_has_all_models_in_light(browser, several):
    look(browser, "dark")
    opened(browser, several)
    browser.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    look(browser, "dark", "print")
    shown = browser.execute_script(
        "return [...document.querySelectorAll('.chart')].map(c => [c.offsetWidth, c.dataset.drawn, c.querySelectorAll('svg').length])"
    )
    assert len(shown) == 3 + 3 * 3
    assert all(width > 300 and theme == "light" and drawings for width, theme, drawings in shown), shown
    assert brightness(browser.execute_script("return getComputedStyle(document.body).backgroundColor")) > 250
    assert not browser.find_element("id", "theme").is_displayed()
    look(browser, "dark")
    browser.execute_script("window.dispatchEvent(new Event('afterprint'))")
    drawn(browser)
    assert browser.execute_script("return document.documentElement.dataset.theme") == "dark"
    assert sum(panel.is_displayed() for panel in browser.find_elements("css selector", ".model")) == 1
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    assert len(printed["data"]) > 50_000


def test_a_keyboard_is_enough(browser, several):
    keys = webdriver.Keys
    opened(browser, several)
    body = browser.find_element("tag name", "body")
    body.send_keys(keys.TAB)
    skip = browser.switch_to.active_element
    assert skip.text == "Skip to the verdict"
    assert skip.rect["x"] >= 0
    skip.send_keys(keys.ENTER)
    assert browser.switch_to.active_element.get_attribute("id") == "verdict"
    first, second, last = tabs(browser)
    browser.execute_script("arguments[0].focus()", first)
    for key, wanted in (
        (keys.ARROW_RIGHT, second),
        (keys.END, last),
        (keys.ARROW_RIGHT, first),
        (keys.ARROW_LEFT, last),
    ):
        browser.switch_to.active_element.send_keys(key)
        assert browser.switch_to.active_element == wanted
        assert [tab.get_attribute("aria-selected") for tab in (first, second, last)].count("true") == 1
        assert browser.find_element("id", wanted.get_attribute("aria-controls")).is_displayed()
    link = browser.find_element("css selector", "#compared a[href='#model-1']")
    browser.execute_script("arguments[0].click()", link)
    drawn(browser)
    assert browser.find_element("id", "model-1").is_displayed()


def test_without_scripts_everything_can_be_read(browser, several):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    browser.get(several.as_uri())
    panels = browser.find_elements("css selector", ".model")
    assert [panel.is_displayed() for panel in panels] == [True] * 3
    assert browser.find_element("id", "verdict").text.startswith("Verdict\n!\nLeaks\nplain leaks")
    assert not browser.find_element("id", "theme").is_displayed()


def test_many_records_open_at_once(browser, tmp_path):
    audit = audited("model", 1.0, epsilon=3.0, count=50_000, who=False)
    path = Report(audits=(audit,), origin=Origin(command="privet audit", version="0")).save(
        tmp_path / "r.html"
    )
    assert path.stat().st_size <= 6_000_000
    taken = []
    for _ in range(3):
        opened(browser, path)
        taken.append(
            browser.execute_script("return performance.getEntriesByType('navigation')[0].loadEventEnd")
        )
        painted = browser.execute_script("return performance.getEntriesByType('paint')[0].startTime")
    assert painted < 1500
    assert min(taken) < 2500  # milliseconds, on a busy machine; about 350 on an idle one
