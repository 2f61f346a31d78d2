"""Pictures as arrays: [count, height, width] or [count, channels, height, width], with values in [0, 1]."""

import numpy as np
from scipy.ndimage import gaussian_filter, median_filter

from privet.errors import InvalidArgument
from privet.views import Numbers, Rows

__all__ = ["correlate_pictures", "denoise", "read_pictures", "smoothness_gradient"]


def read_pictures(name: str, pictures: Rows) -> Numbers:
    """Pictures as floats, checked."""
    array = np.asarray(pictures)
    if array.dtype.kind not in "biuf" or array.ndim not in (3, 4) or len(array) == 0:
        raise InvalidArgument(
            f"'{name}' must be pictures [count, height, width] or [count, channels, height, width] of "
            f"numbers, got an array of shape {array.shape} and type {array.dtype}. Give pictures in their "
            f"own shape."
        )
    floats: Numbers = array.astype(np.float64)
    if not np.isfinite(floats).all() or floats.min() < 0 or floats.max() > 1:
        raise InvalidArgument(
            f"'{name}' must have values from 0 to 1, got others. Divide pictures of bytes by 255; let the "
            f"model's first layer do any other scaling."
        )
    return floats


def denoise(pictures: Numbers, strength: float) -> Numbers:
    """A median of 3 × 3 and a small Gaussian blur, mixed in with weight ``strength``.

    Fredrikson et al. 2015 denoise and sharpen between steps, so that the search stays near pictures that
    exist.
    """
    if strength == 0:
        return pictures
    axes = (1,) * (pictures.ndim - 2)
    smooth = median_filter(pictures, size=(*axes, 3, 3))
    smooth = gaussian_filter(smooth, sigma=(*(0,) * len(axes), 0.5, 0.5))
    mixed: Numbers = (1 - strength) * pictures + strength * smooth
    return mixed


def smoothness_gradient(pictures: Numbers, edge: float = 0.01) -> Numbers:
    """The gradient of total variation, Σ √(d² + edge²) over differences d of neighbouring pixels."""
    gradient = np.zeros_like(pictures)
    for axis in (-2, -1):
        difference = np.diff(pictures, axis=axis)
        slope = difference / np.sqrt(difference**2 + edge**2)
        before = [(0, 0)] * pictures.ndim
        after = [(0, 0)] * pictures.ndim
        before[axis], after[axis] = (1, 0), (0, 1)
        gradient += np.pad(slope, before) - np.pad(slope, after)
    return gradient


def correlate_pictures(first: Numbers, second: Numbers) -> Numbers:
    """The correlation of each picture with each other one, first × second."""

    def standardize(pictures: Numbers) -> Numbers:
        flat = pictures.reshape(len(pictures), -1)
        flat = flat - flat.mean(axis=1, keepdims=True)
        answer: Numbers = flat / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-12)
        return answer

    product: Numbers = standardize(first) @ standardize(second).T
    return product
