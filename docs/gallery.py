"""Run every example, and write the gallery from what it says and draws: ``python docs/gallery.py``.

It needs ``.[examples]``. The noise is seeded, so that the page does not change when nothing has changed; whoever runs an example
gets fresh noise. Pictures are kept in docs/pictures, so that building the site needs neither numpy nor a plotting library.
"""

import contextlib
import importlib
import io
import os
import sys
import tempfile
from pathlib import Path

__all__ = ["EXAMPLES", "gallery"]

_ROOT = Path(__file__).resolve().parents[1]
_PICTURES = _ROOT / "docs" / "pictures" / "gallery"
_COLORS = 128
EXAMPLES = {
    "taxes": "Taxes",
    "blue_eyes": "Blue eyes",
    "hair_colour": "Hair colour",
    "meeting_price": "The price of a meeting",
    "averaging": "Averaging",
    "anna_and_patrick": "Anna and Patrick",
    "well_known_settings": "Well-known settings",
    "cost_of_privacy": "What privacy costs",
}
_ABOUT = {
    "taxes": "The estimated share of cheats nears the truth with more people; what to believe of one person after a yes and after a no.",
    "blue_eyes": "Noisy counts with and without Anna lie almost on each other; the relative error falls with the number of people.",
    "hair_colour": "The most frequent colour is announced with 99.4 %; a clear lead needs little ε.",
    "meeting_price": "The profit jumps at what people would pay: noise on the price earns 17 % of the best, choosing with noise up to 100 %.",
    "averaging": "The mean of many answers nears the truth, and the highest belief about Anna goes to 100 %; a ledger stops after ten.",
    "anna_and_patrick": "How far a release can move a belief about Anna, against ε; a fact about everybody moves that about Patrick from 0.4 to 0.9.",
    "well_known_settings": "ε over the epochs of three trainings, certified, beside what was published and what Rényi moments prove.",
    "cost_of_privacy": "The excess loss of private linear models falls with the number of rows and with ε, as theory has it for the worst data.",
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
        *(_shown(name) for name in EXAMPLES),
    ]
    return "\n".join(parts)


def _shown(name: str) -> str:
    from privet.randomness import SeededNoise

    module = importlib.import_module(name)
    said = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(said):
        _kept(module.main(Path(folder), SeededNoise(17)))
    printed = said.getvalue().partition("\npicture:")[0].strip("\n")
    about = (module.__doc__ or "").strip().partition("\n\n    python")[0]
    source = "\n".join(
        f"    {line}".rstrip() for line in ("```{ .python }", f'--8<-- "examples/{name}.py"', "```")
    )
    return (
        f"## {EXAMPLES[name]}\n\n{about}\n\n"
        f"![{_ABOUT[name]}](pictures/gallery/{name}.png)\n\n"
        f"```text\n{printed}\n```\n\n"
        f'??? example "The program: `examples/{name}.py`"\n\n{source}\n'
    )


def _kept(picture: Path) -> None:
    """With fewer colours, which a chart does not miss: a third of the size."""
    from PIL import Image  # comes with matplotlib

    with Image.open(picture) as drawn:
        small = drawn.convert("RGB").quantize(_COLORS, dither=Image.Dither.NONE)
        small.save(_PICTURES / picture.name, optimize=True)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    (_ROOT / "docs" / "gallery.md").write_text(gallery(), encoding="utf-8")
