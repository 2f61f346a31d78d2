"""Loops of group normalisation, on torch's threads. Imports numba.

Every loop takes contiguous float32 arrays on the CPU. The caller has checked this. With channels last and few
channels in a group, torch's own loops are up to ten times as slow as with channels first.
"""

import numpy as np

from privet.training.compilation import compile_loop, run_parts, use_wide_registers
from privet.training.per_example.kernels.arithmetic import FASTMATH, Floats

__all__ = [
    "group_norm_backward",
    "group_norm_forward",
    "group_norm_sums",
    "group_norm_sums_channels_first",
    "warm_up",
]

_F = np.float32
_BLOCK = 32  # pixels that are added before their sum joins the others, against rounding


def _add_gradients(x: Floats, g: Floats, mean: Floats, block: Floats, centred: Floats, plain: Floats) -> None:
    """centred = Σ_p (x_p − mean) ∘ g_p and plain = Σ_p g_p, for one image [pixels, channels]."""
    use_wide_registers()
    pixels, width = x.shape
    first, second = block[0], block[1]
    centred[:], plain[:] = _F(0), _F(0)
    for start in range(0, pixels, _BLOCK):
        first[:], second[:] = _F(0), _F(0)
        for p in range(start, min(pixels, start + _BLOCK)):
            numbers, row = x[p], g[p]
            for i in range(width):
                first[i] += (numbers[i] - mean[i]) * row[i]
            for i in range(width):
                second[i] += row[i]
        for i in range(width):
            centred[i] += first[i]
        for i in range(width):
            plain[i] += second[i]


_add_gradients = compile_loop(_add_gradients, FASTMATH)


def _forward_part(
    part: int,
    parts: int,
    x: Floats,
    weight: Floats,
    bias: Floats,
    eps: float,
    y: Floats,
    means: Floats,
    scales: Floats,
) -> None:
    use_wide_registers()
    images, pixels, width = x.shape
    groups = means.shape[1]
    each = width // groups
    block, total = np.zeros(width, dtype=_F), np.zeros(width, dtype=_F)
    mean, scale = np.zeros(width, dtype=_F), np.zeros(width, dtype=_F)
    for b in range(images * part // parts, images * (part + 1) // parts):
        image, out = x[b], y[b]
        for is_variance in range(2):  # first the means, then the squares of what is left
            total[:] = _F(0)
            for start in range(0, pixels, _BLOCK):
                block[:] = _F(0)
                for p in range(start, min(pixels, start + _BLOCK)):
                    row = image[p]
                    if is_variance:
                        for i in range(width):
                            block[i] += (row[i] - mean[i]) * (row[i] - mean[i])
                    else:
                        for i in range(width):
                            block[i] += row[i]
                for i in range(width):
                    total[i] += block[i]
            for k in range(groups):
                here = 0.0
                for i in range(k * each, (k + 1) * each):
                    here += np.float64(total[i])
                here /= each * pixels
                if is_variance:
                    scales[b, k] = _F(1.0 / np.sqrt(here + eps))
                else:
                    means[b, k] = _F(here)
                for i in range(k * each, (k + 1) * each):
                    if is_variance:
                        scale[i] = scales[b, k] * weight[i]
                    else:
                        mean[i] = means[b, k]
        for p in range(pixels):
            row, there = image[p], out[p]
            for i in range(width):
                there[i] = (row[i] - mean[i]) * scale[i] + bias[i]


_forward_part = compile_loop(_forward_part, FASTMATH)


def _group_norm_forward(
    threads: int,
    x: Floats,
    weight: Floats,
    bias: Floats,
    eps: float,
    y: Floats,
    means: Floats,
    scales: Floats,
) -> None:
    """y = (x − mean)·scale ∘ weight + bias, with x and y [images, pixels, channels], means [images, groups].

    The scale is 1/√(variance + eps).
    """
    run_parts(_forward_part, threads, (x, weight, bias, eps, y, means, scales))


def _backward_part(
    part: int,
    parts: int,
    x: Floats,
    weight: Floats,
    means: Floats,
    scales: Floats,
    g: Floats,
    dx: Floats,
) -> None:
    """dx = scale·(w∘g − mean of w∘g − x̂·mean of x̂∘w∘g), where the means are over a group."""
    use_wide_registers()
    images, pixels, width = x.shape
    groups = means.shape[1]
    each = width // groups
    block = np.zeros((2, width), dtype=_F)
    centred, plain = np.zeros(width, dtype=_F), np.zeros(width, dtype=_F)
    mean, scale = np.zeros(width, dtype=_F), np.zeros(width, dtype=_F)
    slope, shift = np.zeros(width, dtype=_F), np.zeros(width, dtype=_F)
    for b in range(images * part // parts, images * (part + 1) // parts):
        for i in range(width):
            mean[i] = means[b, i // each]
        _add_gradients(x[b], g[b], mean, block, centred, plain)
        for k in range(groups):
            along, level, own = 0.0, 0.0, np.float64(scales[b, k])
            for i in range(k * each, (k + 1) * each):
                along += np.float64(centred[i]) * np.float64(weight[i])
                level += np.float64(plain[i]) * np.float64(weight[i])
            count = each * pixels
            for i in range(k * each, (k + 1) * each):
                slope[i] = _F(-along * own * own * own / count)
                shift[i] = _F(-level * own / count)
                scale[i] = scales[b, k] * weight[i]
        for p in range(pixels):
            row, numbers, there = g[b, p], x[b, p], dx[b, p]
            for i in range(width):
                there[i] = row[i] * scale[i] + (numbers[i] - mean[i]) * slope[i] + shift[i]


_backward_part = compile_loop(_backward_part, FASTMATH)


def _group_norm_backward(
    threads: int, x: Floats, weight: Floats, means: Floats, scales: Floats, g: Floats, dx: Floats
) -> None:
    """The gradient of x, from that of y."""
    run_parts(_backward_part, threads, (x, weight, means, scales, g, dx))


def _sums_part(
    part: int,
    parts: int,
    x: Floats,
    means: Floats,
    scales: Floats,
    g: Floats,
    weights: Floats,
    biases: Floats,
) -> None:
    use_wide_registers()
    images, _, width = x.shape
    each = width // means.shape[1]
    block, mean = np.zeros((2, width), dtype=_F), np.zeros(width, dtype=_F)
    for b in range(images * part // parts, images * (part + 1) // parts):
        for i in range(width):
            mean[i] = means[b, i // each]
        _add_gradients(x[b], g[b], mean, block, weights[b], biases[b])
        for i in range(width):
            weights[b, i] *= scales[b, i // each]


_sums_part = compile_loop(_sums_part, FASTMATH)


def _group_norm_sums(
    threads: int, x: Floats, means: Floats, scales: Floats, g: Floats, weights: Floats, biases: Floats
) -> None:
    """weights[b] = Σ_p (x_bp − mean_b)·scale_b ∘ g_bp and biases[b] = Σ_p g_bp, for each channel."""
    run_parts(_sums_part, threads, (x, means, scales, g, weights, biases))


def _first_part(
    part: int,
    parts: int,
    x: Floats,
    means: Floats,
    scales: Floats,
    g: Floats,
    weights: Floats,
    biases: Floats,
) -> None:
    use_wide_registers()
    images, width, pixels = x.shape
    each = width // means.shape[1]
    for b in range(images * part // parts, images * (part + 1) // parts):
        for i in range(width):
            mean, numbers, row = means[b, i // each], x[b, i], g[b, i]
            centred, plain = _F(0), _F(0)
            for p in range(pixels):
                centred += (numbers[p] - mean) * row[p]
            for p in range(pixels):
                plain += row[p]
            weights[b, i], biases[b, i] = centred * scales[b, i // each], plain


_first_part = compile_loop(_first_part, FASTMATH)


def _group_norm_sums_channels_first(
    threads: int, x: Floats, means: Floats, scales: Floats, g: Floats, weights: Floats, biases: Floats
) -> None:
    """The same sums, with x and g [images, channels, pixels]."""
    run_parts(_first_part, threads, (x, means, scales, g, weights, biases))


group_norm_forward = compile_loop(_group_norm_forward, FASTMATH)
group_norm_backward = compile_loop(_group_norm_backward, FASTMATH)
group_norm_sums = compile_loop(_group_norm_sums, FASTMATH)
group_norm_sums_channels_first = compile_loop(_group_norm_sums_channels_first, FASTMATH)


def warm_up() -> None:
    """Compile all loops, for the types of arrays that they are called with."""
    x, channels, groups = np.ones((1, 2, 2), dtype=_F), np.ones(2, dtype=_F), np.ones((1, 1), dtype=_F)
    each = np.ones((1, 2), dtype=_F)
    group_norm_forward(1, x, channels, channels, 1e-5, x.copy(), groups, groups.copy())
    group_norm_backward(1, x, channels, groups, groups, x, x.copy())
    group_norm_sums(1, x, groups, groups, x, each, each.copy())
    group_norm_sums_channels_first(1, x, groups, groups, x, each, each.copy())
