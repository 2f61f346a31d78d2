"""How like two pictures are: mean squared error in decibels (PSNR), and structural similarity (SSIM).

Pictures are rows × height × width, or rows × channels × height × width; channels are averaged. Neither number
says whether a person is recognised: a blurred mean picture has an SSIM near 0.5 to every face, and a legible
digit under noise can have a lower PSNR than a grey area. So attacks are also scored by identification
(``identification.py``).

*Reference*: Wang, Bovik, Sheikh & Simoncelli 2004, equation 13, with a uniform window of 7 × 7 pixels and the
sample covariance, as scikit-image computes it by default. The mean is over all windows that lie inside of the
picture.
"""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from privet.arguments import positive, whole
from privet.errors import InvalidArgument
from privet.public_calls import check_public_calls
from privet.recoveries import Criterion
from privet.views import Numbers, Rows

__all__ = ["measure_psnr", "measure_ssim", "psnr_at_least", "ssim_at_least"]

_LEAST_ERROR = 1e-12  # of a mean square: 120 dB, beyond the digits of float32


def measure_psnr(recovered: Rows, truths: Rows, *, span: float = 1.0) -> Numbers:
    """10 log₁₀(span² / mean squared error) of each picture, at most 120 dB at a span of 1.

    >>> measure_psnr(np.full((1, 2, 2), 0.6), np.full((1, 2, 2), 0.5)).round(6).tolist()
    [20.0]
    """
    found, true = _read_pictures(recovered, truths, span)
    errors = np.square(found - true).reshape(len(true), -1).mean(axis=1) / span**2
    answer: Numbers = -10.0 * np.log10(np.maximum(errors, _LEAST_ERROR))
    return answer


def measure_ssim(recovered: Rows, truths: Rows, *, span: float = 1.0, window: int = 7) -> Numbers:
    """The structural similarity of each picture to its truth: 1 for equal ones, about 0 for unrelated ones.

    ``span`` is the range of the pixels, white minus black.

    >>> bars = np.tile(np.arange(8) % 2, (1, 8, 1)).astype(float)
    >>> measure_ssim(bars, bars).tolist(), bool(measure_ssim(1 - bars, bars)[0] < -0.9)
    ([1.0], True)
    """
    found, true = _read_pictures(recovered, truths, span)
    whole("window", window, least=2)
    if min(true.shape[-2:]) < window:
        raise InvalidArgument(
            f"'truths' must be pictures of at least {window} × {window} pixels, got {true.shape[-2]} × "
            f"{true.shape[-1]}. Give a smaller window."
        )
    count = window * window
    mean_x, mean_y = _window_means(found, window), _window_means(true, window)
    scale = count / (count - 1)  # the sample covariance
    var_x = scale * (_window_means(found * found, window) - mean_x * mean_x)
    var_y = scale * (_window_means(true * true, window) - mean_y * mean_y)
    covariance = scale * (_window_means(found * true, window) - mean_x * mean_y)
    low, contrast = (0.01 * span) ** 2, (0.03 * span) ** 2
    likeness = ((2 * mean_x * mean_y + low) * (2 * covariance + contrast)) / (
        (mean_x**2 + mean_y**2 + low) * (var_x + var_y + contrast)
    )
    answer: Numbers = likeness.reshape(len(true), -1).mean(axis=1)
    return answer


def ssim_at_least(threshold: float, *, span: float = 1.0) -> Criterion:
    """A hit has a structural similarity of at least ``threshold`` to the truth."""
    return Criterion(
        f"SSIM is at least {threshold:g}",
        lambda recovered, truths: -measure_ssim(recovered, truths, span=span),
        -threshold,
    )


def psnr_at_least(decibels: float, *, span: float = 1.0) -> Criterion:
    """A hit has a PSNR of at least ``decibels``."""
    return Criterion(
        f"PSNR is at least {decibels:g} dB",
        lambda recovered, truths: -measure_psnr(recovered, truths, span=span),
        -decibels,
    )


def _window_means(pictures: Numbers, window: int) -> Numbers:
    answer: Numbers = sliding_window_view(pictures, (window, window), axis=(-2, -1)).mean(axis=(-2, -1))
    return answer


def _read_pictures(recovered: Rows, truths: Rows, span: float) -> tuple[Numbers, Numbers]:
    positive("span", span)
    found, true = np.asarray(recovered, dtype=np.float64), np.asarray(truths, dtype=np.float64)
    if found.shape != true.shape or true.ndim not in (3, 4):
        raise InvalidArgument(
            f"'recovered' and 'truths' must be pictures of one shape, rows × height × width or rows × "
            f"channels × height × width, got {found.shape} and {true.shape}. Reshape them."
        )
    low, high = float(np.nanmin(true)), float(np.nanmax(true))
    if high - low > span * (1 + 1e-9):
        raise InvalidArgument(
            "'truths' must have pixels within the given span, got a wider range. Scale the pictures to 0 … "
            "1, or give their span."
        )
    return found, true


check_public_calls(__name__)
