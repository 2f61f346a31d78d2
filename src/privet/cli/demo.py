"""``privet demo``: the accountant at work on settings that are well known, with nothing to download."""

import argparse
from dataclasses import dataclass
from typing import Any, final

from privet.accounting import (
    Accountant,
    Advanced,
    Basic,
    EpsilonTarget,
    Optimal,
    Renyi,
    account,
    calibrate,
)
from privet.adjacency import AddRemove
from privet.bounds import Interval
from privet.caveats import Caveat
from privet.cli.demo_picture import Published, demo_picture
from privet.cli.explain import checked_plot, save_plot
from privet.cli.output import (
    Answer,
    caveat_rows,
    caveat_text,
    fixed_down,
    fixed_up,
    paragraph,
    percent_up,
    table,
    write_progress,
)
from privet.events import Event, Opaque, Repeat, dp_sgd

__all__ = ["run"]

_RECORDS, _LOT, _DELTA = 60_000, 256, 1e-5  # MNIST
_CAVEATS = frozenset({Caveat.POISSON_SAMPLING, Caveat.IDEALISED_REALS, Caveat.CHECKED_ROUND_OFF})

# tensorflow/privacy, tutorials/README.md, "Select Parameters": noise multiplier, epochs, ε at δ = 1e-5
_PUBLISHED = (Published(1.3, 15, 1.19), Published(1.1, 60, 3.01), Published(0.7, 45, 7.10))
_TARGETS = (1.0, 2.0, 4.0, 8.0)
_EPOCHS = 60
_SMALL = Repeat(Opaque(epsilon=0.001), 500)  # the example of Kairouz, Oh & Viswanath 2015
_SMALL_DELTA = 1e-6


@final
@dataclass(frozen=True)
class _Bought:
    """What a target ε costs in noise, and what it means for a person."""

    epsilon: float
    noise_multiplier: float
    tpr: float
    advantage: float
    beliefs: tuple[float, float]


def run(arguments: argparse.Namespace) -> Answer:
    """Three tables and a picture."""
    target = checked_plot(arguments.plot)
    write_progress("Accounting for three published trainings …")
    trained = [(setting, _certified(setting), _moments(setting)) for setting in _PUBLISHED]
    theorems = _theorems()
    write_progress("Solving for the noise that four targets need …")
    bought = [_bought(epsilon) for epsilon in _TARGETS]
    document: dict[str, object] = {
        "delta": _DELTA,
        "adjacency": "add-remove",
        "unit": "record",
        "published": [_published_row(*row) for row in trained],
        "composition": [
            {"accountant": name, "epsilon": epsilon, "delta": _SMALL_DELTA} for name, epsilon in theorems
        ],
        "calibration": [_bought_row(row) for row in bought],
        "caveats": caveat_rows(_CAVEATS),
    }
    blocks = [
        _title("What three published trainings leak"),
        paragraph(
            f"DP-SGD on MNIST as in the tutorial of TensorFlow Privacy: lots of {_LOT} out of "
            f"{_RECORDS:,} records, add-remove adjacency, ε at δ = {_DELTA:g}. The true ε is between "
            f"the last two columns."
        ),
        _trained_table(trained),
        _title("The same 500 answers, each ε = 0.001, by four theorems"),
        table(
            ("theorem", f"ε at δ = {_SMALL_DELTA:g}"), [(name, fixed_up(eps, 4)) for name, eps in theorems]
        ),
        _title(f"What ε costs in noise over {_EPOCHS} epochs, and what it means for a person"),
        _bought_table(bought),
        *caveat_text(_CAVEATS),
    ]
    if target is not None:
        write_progress("Drawing …")
        save_plot(target, demo_picture(_PUBLISHED, _certified, _moments, _DELTA))
        document["plot"] = str(target)
        blocks.append(f"The picture, ε against epochs for each of these trainings, is in {target}.")
    write_progress("")
    return Answer(blocks, document)


def _event(setting: Published) -> Event:
    return _training(setting.noise_multiplier, setting.epochs)


def _training(noise_multiplier: float, epochs: float) -> Event:
    steps = int(epochs * _RECORDS / _LOT)
    return dp_sgd(noise_multiplier=noise_multiplier, sampling_rate=_LOT / _RECORDS, steps=steps)


def _certified(setting: Published) -> Interval:
    return account(_event(setting), adjacency=AddRemove()).epsilon_bounds(delta=_DELTA)


def _moments(setting: Published) -> float:
    return account(_event(setting), adjacency=AddRemove(), accountant=Renyi()).epsilon(delta=_DELTA)


def _theorems() -> list[tuple[str, float]]:
    pure = account(_SMALL, adjacency=AddRemove(), accountant=Basic()).epsilon(delta=0.0)
    accountants: tuple[Accountant[Any], ...] = (Advanced(), Renyi(), Optimal())
    return [
        (Basic.name, pure),
        *(
            (
                tool.name,
                account(_SMALL, adjacency=AddRemove(), accountant=tool).epsilon(delta=_SMALL_DELTA),
            )
            for tool in accountants
        ),
    ]


def _bought(epsilon: float) -> _Bought:
    found = calibrate(
        lambda noise_multiplier: _training(noise_multiplier, _EPOCHS),
        EpsilonTarget(epsilon=epsilon, delta=_DELTA),
        adjacency=AddRemove(),
    )
    claim = found.guarantee
    low, even = (claim.posterior(prior=prior, delta=_DELTA).upper for prior in (0.1, 0.5))
    return _Bought(epsilon, found.value, claim.tpr(fpr=1e-3), claim.advantage(), (low, even))


def _title(words: str) -> str:
    return f"{words}\n{'═' * len(words)}"


def _trained_table(trained: list[tuple[Published, Interval, float]]) -> str:
    rows = [
        (
            f"{setting.noise_multiplier:g}",
            f"{setting.epochs:g}",
            f"{setting.epsilon:.2f}",
            fixed_up(moments),
            fixed_up(bounds.upper),
            fixed_down(bounds.lower),
        )
        for setting, bounds, moments in trained
    ]
    return table(("noise multiplier", "epochs", "published", "Rényi", "certified ≤", "certified ≥"), rows)


def _bought_table(bought: list[_Bought]) -> str:
    rows = [
        (
            f"{row.epsilon:g}",
            fixed_up(row.noise_multiplier),
            percent_up(row.tpr),
            percent_up(row.advantage),
            percent_up(row.beliefs[0]),
            percent_up(row.beliefs[1]),
        )
        for row in bought
    ]
    header = ("ε", "noise multiplier", "TPR at FPR 0.1 %", "TPR − FPR", "belief 10 % →", "belief 50 % →")
    return table(header, rows) + "\n  (each the most that any attack or any reader can reach)"


def _published_row(setting: Published, bounds: Interval, moments: float) -> dict[str, float]:
    return {
        "noise_multiplier": setting.noise_multiplier,
        "epochs": setting.epochs,
        "published": setting.epsilon,
        "renyi": moments,
        "epsilon": bounds.upper,
        "epsilon_lower": bounds.lower,
    }


def _bought_row(row: _Bought) -> dict[str, object]:
    return {
        "epsilon": row.epsilon,
        "noise_multiplier": row.noise_multiplier,
        "tpr": [{"fpr": 1e-3, "tpr": row.tpr}],
        "advantage": row.advantage,
        "posterior": [{"prior": 0.1, "upper": row.beliefs[0]}, {"prior": 0.5, "upper": row.beliefs[1]}],
    }
