"""private-PGM, the reference estimator (PyPI ``mbi``). The only module that imports it.

*Reference.* McKenna, Sheldon & Miklau 2019, "Graphical-model based estimation and inference for differential
privacy". It runs on JAX in float64, which is switched on for these calls only; every new set of cliques is
compiled.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, final

import numpy as np

from privet.arguments import whole
from privet.errors import MissingPackage
from privet.releasing.synthetic.descent import build_tree_model
from privet.releasing.synthetic.estimation import (
    Estimator,
    FittedModel,
    Measurement,
    estimate_total,
    merge_measurements,
)
from privet.releasing.synthetic.junction import build_junction_tree

__all__ = ["PrivatePGM"]


@final
@dataclass(frozen=True)
class PrivatePGM(Estimator):
    """The mirror descent of private-PGM, with ``steps`` steps."""

    steps: int = 1000

    def __post_init__(self) -> None:
        whole("steps", self.steps)

    def check_packages(self) -> None:
        _packages()

    def fit(
        self, shape: tuple[int, ...], measurements: Sequence[Measurement], start: FittedModel | None = None
    ) -> FittedModel:
        jax, mbi = _packages()
        merged, total = merge_measurements(measurements), estimate_total(measurements)
        with jax.enable_x64(True), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            domain = mbi.Domain(range(len(shape)), shape)
            linear = [
                mbi.LinearMeasurement(noisy.values.ravel(), noisy.axes, noisy.variance**0.5)
                for noisy in merged
            ]
            model: Any = mbi.estimation.MirrorDescent().estimate(
                domain, linear, known_total=total, iters=self.steps, warm_start=_start(mbi, domain, start)
            )
            potentials = {
                tuple(axes): np.asarray(table.values, dtype=float)
                for axes, table in model.potentials.tables.items()
            }
        junction_tree = build_junction_tree(shape, [measurement.axes for measurement in merged])
        return FittedModel(build_tree_model(shape, junction_tree, potentials, total), potentials)


def _packages() -> tuple[ModuleType, ModuleType]:
    try:
        import jax

        with jax.enable_x64(True), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of float32 and of the compilation cache
            import mbi  # type: ignore[import-untyped]
    except ImportError:
        raise MissingPackage(
            "PrivatePGM needs the package 'mbi', which is not installed. Run pip install "
            "'privet[synthetic]', or use MirrorDescent(), which needs nothing."
        ) from None
    return jax, mbi


def _start(mbi: ModuleType, domain: Any, start: FittedModel | None) -> Any:  # noqa: ANN401 - mbi has no types
    if start is None:
        return None
    tables = {
        axes: mbi.Factor(domain.project(axes), np.asarray(table)) for axes, table in start.potentials.items()
    }
    return mbi.CliqueVector(domain, tuple(tables), tables)
