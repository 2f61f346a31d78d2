"""How well a regression model predicts, for a report: it has no accuracy."""

from dataclasses import dataclass
from typing import final

__all__ = ["RegressionFit"]


@final
@dataclass(frozen=True, kw_only=True)
class RegressionFit:
    """How well a regression model predicts members and others: R², and the root of the mean squared error.

    R² is None where all quantities of a side are the same.
    """

    train_r2: float | None
    test_r2: float | None
    train_error: float
    test_error: float

    def __str__(self) -> str:
        sides = ((self.train_r2, self.train_error, "members"), (self.test_r2, self.test_error, "others"))
        return ", ".join(
            f"{'–' if r2 is None else f'{r2:.3f}'} on {side} (error {error:.4g})" for r2, error, side in sides
        )
