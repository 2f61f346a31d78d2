"""Exhibits: a recovered thing beside the truth and beside the best blind guess, to be looked at.

An exhibit holds private data: the truth itself. So nothing here shows it by accident: ``repr`` names shapes
and lengths only, and a report leaves exhibits out until it is asked for them.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from privet.errors import InvalidArgument
from privet.public_calls import check_public_calls

__all__ = ["Exhibit", "Picture", "Shown"]


@final
@dataclass(frozen=True, eq=False)
class Picture:
    """A picture as height × width (grey) or height × width × 3 (red, green, blue).

    Numbers lie between 0 (black) and 1 (white), or are whole numbers from 0 to 255. What an attack recovers
    may lie outside: it is clipped, as a screen would do, and NaN becomes middle grey.

    >>> Picture(np.array([[0.0, 1.0], [2.0, np.nan]])).pixels.tolist()
    [[0, 255], [255, 128]]
    """

    pixels: NDArray[Any]

    def __post_init__(self) -> None:
        values = np.asarray(self.pixels)
        if values.ndim == 3 and values.shape[2] == 1:
            values = values[:, :, 0]
        is_grey, is_colour = values.ndim == 2, values.ndim == 3 and values.shape[2:] == (3,)
        if not (is_grey or is_colour) or 0 in values.shape:
            raise InvalidArgument(
                f"'pixels' must be height × width or height × width × 3, got an array of shape "
                f"{values.shape}. Give one picture, with its colours on the last axis (pixels.transpose(1, "
                f"2, 0) moves them)."
            )
        if values.dtype != np.uint8:
            if values.dtype.kind not in "biuf":
                raise InvalidArgument(
                    "'pixels' must be numbers, got something else. Give 0 for black and 1 for white."
                )
            if values.dtype.kind in "iu":  # 0 to 255, in a wider type
                values = np.clip(values, 0, 255).astype(np.uint8)
            else:
                levels = np.nan_to_num(values.astype(np.float64), nan=0.5, posinf=1.0, neginf=0.0)
                values = np.rint(255 * np.clip(levels, 0.0, 1.0)).astype(np.uint8)
        object.__setattr__(self, "pixels", values)

    def __repr__(self) -> str:
        return f"Picture({self.pixels.shape[0]} × {self.pixels.shape[1]})"


Shown: TypeAlias = Picture | str  # a picture, or a line of text (a value, a row, a sentence)


@final
@dataclass(frozen=True, eq=False)
class Exhibit:
    """What was recovered of one target, beside the truth and beside the best blind guess, where there is one.

    ``member`` is the coin: whether the target was in the data; None where every target was.

    *Leaks*: it holds the truth. Keep it as confidential as the data.
    """

    truth: Shown
    recovered: Shown
    blind: Shown | None = None
    caption: str = ""
    member: bool | None = None

    def __repr__(self) -> str:
        kind = "picture" if isinstance(self.truth, Picture) else "text"
        return f"Exhibit({kind}, confidential)"


check_public_calls(__name__)
