"""Run every example, and write the gallery from what it says and draws: ``python docs/gallery.py``.

It needs ``.[examples,foreign]``. The noise is seeded, so that the page does not change when nothing has changed;
whoever runs an example gets fresh noise. The audit's picture is taken of its report by Chromium, where that
is installed. Pictures are kept in docs/pictures, so that building the site needs neither numpy nor a plotting
library.
"""

import contextlib
import importlib
import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import which
from textwrap import fill

__all__ = ["AUDITED", "COMPARED", "EXAMPLES", "gallery", "shown"]

_ROOT = Path(__file__).resolve().parents[1]
_PICTURES = _ROOT / "docs" / "pictures" / "gallery"
_COLORS = 128
_WINDOW = (1200, 1700)
AUDITED = "audit_your_model"
COMPARED = "compare_defences"
EXAMPLES = {
    "taxes": "Taxes",
    "blue_eyes": "Blue eyes",
    "hair_colour": "Hair colour",
    "meeting_price": "The price of a meeting",
    "averaging": "Averaging",
    "salary_by_difference": "The salary by difference",
    "three_salaries": "Three salaries",
    "everybodys_bit": "Everybody's bit",
    "census_block": "The census block",
    "anna_and_patrick": "Anna and Patrick",
    "well_known_settings": "Well-known settings",
    "cost_of_privacy": "What privacy costs",
    "fine_tune": "Fine-tune a language model",
    "patients_secret": "A patient's secret",
    "picture_of_a_class": "A picture of a class",
    "picture_from_gradient": "The picture from a gradient",
    "governors_record": "The governor's record",
    "film_lover": "The film lover",
    "letters_and_licence": "Letters and a licence",
    "choose_settings": "Choosing settings",
}
_ABOUT = {
    "taxes": "The estimated share of cheats nears the truth with more people; what to believe of one person after a yes and after a no.",
    "blue_eyes": "Noisy counts with and without Anna lie almost on each other; the relative error falls with the number of people.",
    "hair_colour": "The most frequent colour is announced with 99.4 %; a clear lead needs little ε.",
    "meeting_price": "The profit jumps at what people would pay: noise on the price earns 17 % of the best, choosing with noise up to 100 %.",
    "averaging": "The mean of many answers nears the truth, and the highest belief about Anna goes to 100 %; a ledger stops after ten.",
    "salary_by_difference": "The difference of two released sums at ε = 1 is anything from −200,000 to 200,000 €; how often it is near the salary, against ε, far below the proved ceiling.",
    "three_salaries": "What Ben is sent of Anna's salary is uniform, whatever she earns; all that he sees looks like numbers that were made up from the sum alone.",
    "everybodys_bit": "Bits recovered from 200 sums: all of them while errors are below √n; with released sums recovered against ε, from the blind guess up, below the proved ceiling.",
    "census_block": "34 possible triples of ages from the line about the men alone; seven of seven people, with sex, origin and age, from all lines.",
    "anna_and_patrick": "How far a release can move a belief about Anna, against ε; a fact about everybody moves that about Patrick from 0.4 to 0.9.",
    "well_known_settings": "ε over the epochs of three trainings, certified, beside what was published and what Rényi moments prove.",
    "cost_of_privacy": "The excess loss of private linear models falls with the number of rows and with ε, as theory has it for the worst data.",
    "picture_from_gradient": "Eight digits, the same eight from one shared gradient, a blind guess, and each under noise; how often three attacks name the right one of 1,000, against the noise, below the proved ceiling.",
    "patients_secret": "Right guesses of a secret column: an overfitted tree adds 8 points for patients in the data, a straight line none.",
    "picture_of_a_class": "Digits drawn from a plain, a private and an untrained model, beside a picture in the data and the blind guess.",
    "governors_record": "Voters found among patients without names: 94 % by date of birth, zip code and sex, none by year of birth; beside each the rate of absent voters who were still found.",
    "film_lover": "Reviewers found among subscribers against the number of known ratings, with and without dates; below, absent reviewers who were still found.",
    "letters_and_licence": "Letters that come back word for word from a plain model and from no other; writers found against false alarms: all of them, some where training is stopped early, hardly more than by guessing with privacy.",
    "choose_settings": "ε against the number of settings that were tried, all counted; below it the ε that privet.tune pays for the whole choice, and that of one run, which is what people report.",
    "fine_tune": "Bits per byte of held-out text: public text only, fine-tuned with privacy, and fine-tuned without.",
}


def gallery() -> str:
    """The page, after running everything."""
    sys.path.insert(0, str(_ROOT / "examples"))
    _PICTURES.mkdir(parents=True, exist_ok=True)
    parts = [
        "# Gallery\n",
        "Each example is a short program that teaches one thing. It prints a table and draws a picture. What is on this page was "
        "printed and drawn by running it, with seeded noise; run it yourself for fresh noise:\n",
        "```\n.venv/bin/pip install -e '.[examples]'\n.venv/bin/python examples/taxes.py        # writes examples-out/taxes.png\n```\n",
        _audited(),
        _compared(),
        *(shown(name) for name in EXAMPLES),
    ]
    return "\n".join(parts)


def shown(name: str) -> str:
    """One example: what it teaches, its picture, what it says, and the program."""
    from privet.randomness import SeededNoise

    module = importlib.import_module(name)
    said = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(said):
        _kept(module.main(Path(folder), SeededNoise(17)))
    printed = said.getvalue().partition("\npicture:")[0].strip("\n")
    return _section(name, EXAMPLES[name], module.__doc__ or "", _ABOUT[name], printed)


def _audited() -> str:
    printed = _photograph_page(AUDITED)
    about = "The report: a verdict, key figures, the ROC of three attacks, and ε from both sides."
    return _section(AUDITED, "Audit your model", _teaches(AUDITED), about, fill(printed, 90))


def _compared() -> str:
    """Its noise is fresh, so that what it prints differs a little in the rows of DP-SGD."""
    printed = _photograph_page(COMPARED)
    about = (
        "The page: which defence to take, test accuracy over the members that attacks find, and all figures."
    )
    return _section(COMPARED, "Compare defences", _teaches(COMPARED), about, printed.rstrip())


def _teaches(name: str) -> str:
    return importlib.import_module(name).__doc__ or ""


def _photograph_page(name: str) -> str:
    """Run an example that writes a page, take its picture, and give what it says."""
    said = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        with contextlib.redirect_stdout(said):
            report = importlib.import_module(name).main(Path(folder))
        _photographed(report, Path(folder) / f"{name}.png")
    return said.getvalue().partition("\nreport:")[0]


def _section(name: str, title: str, teaches: str, picture: str, printed: str) -> str:
    about = teaches.strip().partition("\n\n    ")[0]
    source = "\n".join(f"    {line}" for line in ("```{ .python }", f'--8<-- "examples/{name}.py"', "```"))
    return (
        f"## {title}\n\n{about}\n\n"
        f"![{picture}](pictures/gallery/{name}.png)\n\n"
        f"```text\n{printed}\n```\n\n"
        f'??? example "The program: `examples/{name}.py`"\n\n{source}\n'
    )


def _photographed(report: Path, picture: Path) -> None:
    """The top of a report, as a browser shows it; without a browser the picture that is there stays."""
    browser = which("chromium")
    if browser is None:
        return
    options = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--virtual-time-budget=5000",
    ]
    size = f"--window-size={_WINDOW[0]},{_WINDOW[1]}"
    subprocess.run(
        [browser, *options, size, f"--screenshot={picture}", report.resolve().as_uri()],
        check=True,
        capture_output=True,
        timeout=120,
    )
    _kept(picture)


def _kept(picture: Path) -> None:
    """With fewer colours, which a chart does not miss: a third of the size."""
    from PIL import Image  # comes with matplotlib

    with Image.open(picture) as drawn:
        small = drawn.convert("RGB").quantize(_COLORS, dither=Image.Dither.NONE)
        small.save(_PICTURES / picture.name, optimize=True)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    (_ROOT / "docs" / "gallery.md").write_text(gallery(), encoding="utf-8")
