"""The picture of ``privet demo``: ε against epochs, certified from both sides, beside what moments prove."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from privet.bounds import Interval
from privet.cli.output import fixed_up
from privet.cli.svg import (
    BLUE,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    LogAxis,
    Panel,
    area,
    curve,
    document,
    dot,
    line,
    text,
)

__all__ = ["Published", "demo_picture"]

_COLOURS = {0.7: ORANGE, 1.1: BLUE, 1.3: GREEN}  # by noise multiplier
_EPOCHS = (1.0, 1.5, 2.2, 3.2, 4.6, 6.8, 10.0, 15.0, 22.0, 32.0, 46.0, 68.0, 100.0)
_TITLE = "What more noise buys: ε over the epochs of a training"


@final
@dataclass(frozen=True)
class Published:
    """A training whose ε has been published; 0 where only the setting is of interest."""

    noise_multiplier: float
    epochs: float
    epsilon: float = 0.0


def demo_picture(
    published: Sequence[Published],
    certified: Callable[[Published], Interval],
    moments: Callable[[Published], float],
    delta: float,
) -> str:
    """One chart: a certified band and a dashed line of moments for each noise multiplier."""
    panel = Panel(
        92,
        124,
        700,
        400,
        LogAxis(1.0, 100.0, "epochs", _labelled(1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)),
        LogAxis(0.2, 10.0, f"ε at δ = {delta:g}", _labelled(0.2, 0.5, 1.0, 2.0, 5.0, 10.0)),
    )
    widest = 0.0
    lines: list[str] = []
    for noise, colour in _COLOURS.items():
        settings = [Published(noise, epochs) for epochs in _EPOCHS]
        bands = [certified(setting) for setting in settings]
        widest = max(widest, *(band.relative_gap for band in bands))
        above = [panel.place(e, band.upper) for e, band in zip(_EPOCHS, bands, strict=True)]
        below = [panel.place(e, band.lower) for e, band in zip(_EPOCHS, bands, strict=True)]
        loose = [panel.place(s.epochs, moments(s)) for s in settings]
        end = above[-1]
        lines += [
            area([*above, *reversed(loose)], colour=colour, opacity=0.07),
            curve(loose, colour=colour, width=1.5, dash="2 5"),
            area([*above, *reversed(below)], colour=colour, opacity=1.0),
            curve(above, colour=colour, width=2.75),
            text((end[0] + 12, end[1] + 5), f"noise {noise:g}", size=14, bold=True, colour=colour),
        ]
    subtitle = "DP-SGD on MNIST, lots of 256 out of 60,000 records, add-remove adjacency."
    parts = [
        text((34, 48), _TITLE, size=23, bold=True),
        text((34, 74), subtitle, size=13.5, colour=MUTED),
        *panel.frame(),
        *lines,
        *(part for setting in published for part in _marker(panel, setting, certified(setting).upper)),
        *_key(panel, widest),
    ]
    described = (
        f"ε at δ = {delta:g} against epochs for noise multipliers {', '.join(f'{n:g}' for n in _COLOURS)}."
    )
    return document(920, 600, title=_TITLE, description=described, parts=parts)


def _labelled(*values: float) -> tuple[tuple[float, str], ...]:
    return tuple((value, f"{value:g}") for value in values)


def _marker(panel: Panel, setting: Published, proved: float) -> list[str]:
    """A published ε, and how far down the same training is proved to be."""
    colour = _COLOURS[setting.noise_multiplier]
    told, truth = panel.place(setting.epochs, setting.epsilon), panel.place(setting.epochs, proved)
    return [
        line(told, truth, colour=colour, width=1.25),
        dot(told, colour=colour, radius=5.5, hollow=True),
        dot(truth, colour=colour, radius=5.5),
        text((told[0] - 11, told[1] - 7), f"{setting.epsilon:.2f}", colour=colour, anchor="end", halo=True),
        text((truth[0] + 9, truth[1] + 19), fixed_up(proved, 2), colour=colour, bold=True, halo=True),
    ]


def _key(panel: Panel, widest: float) -> list[str]:
    left, top = panel.left + 24, panel.top + 26
    gap = f"certified: upper and lower bound, at most {widest:.0e} apart, are one line"
    return [
        line((left, top - 4), (left + 34, top - 4), colour=INK, width=2.75),
        text((left + 46, top), gap, halo=True),
        line((left, top + 20), (left + 34, top + 20), colour=INK, width=1.5, dash="2 5"),
        text((left + 46, top + 24), "what Rényi moments prove of the same training", halo=True),
        dot((left + 7, top + 44), colour=INK, radius=5.5, hollow=True),
        dot((left + 27, top + 44), colour=INK, radius=5.5),
        text(
            (left + 46, top + 48),
            "published with the tutorial of TensorFlow Privacy, and certified",
            halo=True,
        ),
    ]
