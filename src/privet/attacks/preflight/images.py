"""Records that are images: how they are recognised, and numbers that describe them."""

import math

import numpy as np
from numpy.typing import NDArray

from privet.attacks.preflight.features import Features
from privet.views import Rows

__all__ = [
    "describe_blocks",
    "describe_frequencies",
    "orientation_histograms",
    "read_images",
    "small_copies",
    "spectra",
]

Images = NDArray[np.float32]  # records × rows × columns × channels

_SMALLEST = 6  # pixels on a side
_LARGEST = 32  # pixels on a side; larger images are averaged down
_CHANNELS = (1, 2, 3, 4)
_SMOOTH = 0.8  # of the difference between pixels that are far apart
_ORIENTATIONS = 8
_FREQUENCIES = 9
_BLOCK = 8
_SMALL = (0.1, 0.25, 0.5, 0.75)
_SHOWN = 200  # records that are looked at to recognise images


def read_images(inputs: Rows) -> Images | None:
    """The records as images, or None.

    Three axes are gray images, four are images with channels, first or last. Flat rows of s² or 3 s² numbers
    are images where neighbouring pixels are more alike than distant ones.
    """
    if inputs.dtype.kind not in "biuf" or inputs.size == 0:
        return None
    arranged = _arrange(inputs)
    if arranged is None or min(arranged.shape[1:3]) < _SMALLEST:
        return None
    images: Images = np.nan_to_num(arranged.astype(np.float32), nan=0.0, posinf=0.0, neginf=0.0)
    return _average_down(images)


def orientation_histograms(images: Images, cells: int = 6) -> Features:
    """How strong edges of each orientation are in each cell of the image, as square roots of shares.

    Reference: Dalal & Triggs 2005, without overlapping blocks.
    """
    gray = images.mean(axis=3)
    across, down = np.zeros_like(gray), np.zeros_like(gray)
    across[:, :, 1:-1] = gray[:, :, 2:] - gray[:, :, :-2]
    down[:, 1:-1] = gray[:, 2:] - gray[:, :-2]
    strength = np.hypot(across, down)
    turn = (np.arctan2(down, across) + math.pi) / (2 * math.pi)
    orientation = (turn * _ORIENTATIONS).astype(np.int64) % _ORIENTATIONS
    count, height, width = gray.shape
    cell = (np.arange(height) * cells // height)[:, None] * cells + np.arange(width) * cells // width
    size = cells * cells * _ORIENTATIONS
    place = np.arange(count)[:, None, None] * size + cell * _ORIENTATIONS + orientation
    sums = np.bincount(place.ravel(), weights=strength.ravel(), minlength=count * size).reshape(count, size)
    total = np.maximum(sums.sum(axis=1, keepdims=True), 1e-30)
    return np.sqrt(sums / total).astype(np.float32)


def small_copies(images: Images) -> Features:
    """The images in at most 8 × 8 pixels, flat."""
    step = max(1, min(images.shape[1:3]) // 8)
    return _pool(images, step).reshape(len(images), -1)


def spectra(images: Images) -> Features:
    """The sizes of low frequencies, which a small shift, a mirror, brightness and contrast leave as they are.

    The square root is taken, so that the lowest frequencies do not decide alone.
    """
    gray = images.mean(axis=3)
    gray = gray - gray.mean(axis=(1, 2), keepdims=True)
    sizes = np.abs(np.fft.rfft2(gray)).astype(np.float32)
    most = min(_FREQUENCIES, sizes.shape[1] // 2, sizes.shape[2])
    down = np.arange(most)
    mirrored = sizes[:, down, :most] + sizes[:, -down, :most]
    flat = np.sqrt(mirrored.reshape(len(gray), -1))
    scaled: Features = flat / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-12)
    return scaled


def describe_frequencies(images: Images, bands: int = 6) -> Features:
    """The logarithm of the energy in each band of frequencies, which resampling and compression change."""
    gray = images.mean(axis=3)
    energy = np.abs(np.fft.rfft2(gray)).astype(np.float32) ** 2
    down = np.abs(np.fft.fftfreq(gray.shape[1]))[:, None]
    across = np.abs(np.fft.rfftfreq(gray.shape[2]))[None]
    band = np.minimum((np.maximum(down, across) * 2 * bands).astype(np.int64), bands - 1)
    sums = [energy[:, band == number].sum(axis=1) for number in range(bands)]
    return np.log(np.stack(sums, axis=1) + 1e-12).astype(np.float32)


def describe_blocks(inputs: Rows) -> Features:
    """How small the small coefficients of 8 × 8 blocks are, by quantiles: compression sets many of them to 0.

    The blocks are those of the cosine transform in JPEG, at the upper left of each image as it is stored.
    """
    arranged = _arrange(inputs)
    if arranged is None or min(arranged.shape[1:3]) < _BLOCK:
        return np.zeros((len(inputs), 0), dtype=np.float32)
    high, wide = (min(size, _LARGEST) // _BLOCK * _BLOCK for size in arranged.shape[1:3])
    part = np.nan_to_num(arranged[:, :high, :wide].astype(np.float32), nan=0.0, posinf=0.0, neginf=0.0)
    shape = (len(part), high // _BLOCK, _BLOCK, wide // _BLOCK, _BLOCK, part.shape[3])
    blocks = np.moveaxis(part.reshape(shape), (2, 4), (-2, -1))
    at = np.arange(_BLOCK)
    cosines = np.cos(math.pi / _BLOCK * (at + 0.5) * at[:, None]).astype(np.float32)
    sizes = np.abs(cosines @ blocks @ cosines.T).reshape(len(part), -1)
    sizes.sort(axis=1)
    ranks = [int(share * (sizes.shape[1] - 1)) for share in _SMALL]
    return np.log(sizes[:, ranks] / max(float(np.abs(part).max()), 1e-30) + 1e-6)


def _arrange(inputs: Rows) -> Rows | None:
    shape = inputs.shape[1:]
    if len(shape) == 2:
        return inputs[..., None]
    if len(shape) == 3:
        if shape[0] in _CHANNELS:
            return np.moveaxis(inputs, 1, 3)
        return inputs if shape[2] in _CHANNELS else None
    if len(shape) != 1:
        return None
    forms: list[Rows] = []
    side = math.isqrt(shape[0])
    if side * side == shape[0]:
        forms.append(inputs.reshape(len(inputs), side, side, 1))
    side = math.isqrt(shape[0] // 3)
    if 3 * side * side == shape[0]:
        forms.append(np.moveaxis(inputs.reshape(len(inputs), 3, side, side), 1, 3))
        forms.append(inputs.reshape(len(inputs), side, side, 3))
    rated = [(_roughness(form), number) for number, form in enumerate(forms)]
    if not rated or min(rated)[0] > _SMOOTH:
        return None
    return forms[min(rated)[1]]


def _roughness(images: Rows) -> float:
    """The difference of neighbouring pixels, of that between pixels half an image apart."""
    if min(images.shape[1:3]) < _SMALLEST:
        return 1.0
    some = np.nan_to_num(images[:: max(1, len(images) // _SHOWN)].astype(np.float32))
    near = np.abs(np.diff(some, axis=1)).mean() + np.abs(np.diff(some, axis=2)).mean()
    half, side = some.shape[1] // 2, some.shape[2] // 2
    far = np.abs(some[:, half:] - some[:, : some.shape[1] - half]).mean()
    far += np.abs(some[:, :, side:] - some[:, :, : some.shape[2] - side]).mean()
    return float(near / far) if far > 0 else 1.0


def _average_down(images: Images) -> Images:
    return _pool(images, -(-max(images.shape[1:3]) // _LARGEST))


def _pool(images: Images, step: int) -> Images:
    if step <= 1:
        return images
    count, height, width, channels = images.shape
    height, width = height // step * step, width // step * step
    blocks = images[:, :height, :width].reshape(count, height // step, step, width // step, step, channels)
    pooled: Images = blocks.mean(axis=(2, 4))
    return pooled
