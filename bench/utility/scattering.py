"""Fixed features of images: a scattering transform of second order. Nothing in it is learnt, so it costs no privacy.

An image x is filtered by Morlet wavelets ψ of scales 2^j and angles θ; the modulus is taken, and the result is filtered once
more by coarser wavelets. Every path is averaged by a Gaussian φ of scale 2^J and kept at each 2^J-th pixel:

    S₀ = x ⋆ φ,   S₁ = |x ⋆ ψ₁| ⋆ φ,   S₂ = ||x ⋆ ψ₁| ⋆ ψ₂| ⋆ φ   with j₂ > j₁

With J scales and L angles these are 1 + J L + L² J(J − 1)/2 maps: 81 for J = 2 and L = 8, each 7 × 7 for an image of 28 × 28.

Reference: Bruna & Mallat 2013, Section 2; Oyallon & Mallat 2015 for these filters' widths; Tramèr & Boneh 2021 for training
private models on them. The filters are sampled in space on a periodic grid, and convolved by FFT.
"""

import math

import torch
import torch.nn.functional as F  # noqa: N812 - as torch names it
from torch import Tensor

_PIECE = 8  # images at a time


def _gabor(size: int, deviation: float, angle: float, frequency: float, slant: float) -> Tensor:
    """A Gaussian times a wave, wrapped around a periodic grid; its sum is 1 where the frequency is 0."""
    turn = torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    turn = turn.double()
    shape = (
        turn @ torch.diag(torch.tensor([1.0, slant**2], dtype=torch.float64)) @ turn.T / (2 * deviation**2)
    )
    total = torch.zeros(size, size, dtype=torch.complex128)
    for down in range(-2, 3):
        for right in range(-2, 3):
            y = torch.arange(size, dtype=torch.float64) + down * size
            x = torch.arange(size, dtype=torch.float64) + right * size
            y, x = torch.meshgrid(y, x, indexing="ij")
            exponent = -(shape[0, 0] * y * y + (shape[0, 1] + shape[1, 0]) * y * x + shape[1, 1] * x * x)
            wave = frequency * (y * turn[0, 0] + x * turn[1, 0])
            total += torch.complex(exponent, wave).exp()
    return total / (2 * math.pi * deviation**2 / slant)


def _morlet(size: int, deviation: float, angle: float, frequency: float, slant: float) -> Tensor:
    """A wave under a Gaussian, with a multiple of the Gaussian taken off so that the sum is 0."""
    wave = _gabor(size, deviation, angle, frequency, slant)
    hill = _gabor(size, deviation, angle, 0.0, slant)
    return wave - wave.sum() / hill.sum() * hill


class Scattering:
    """Maps images [images, side, side] to features [images, paths, side/2^J, side/2^J].

    What was filtered by a wavelet of scale 2^j has little left above the frequency π/2^j, so it is kept at every 2^j-th pixel
    only, by folding its spectrum. The Gaussian and the subsampling are one matrix from either side.
    """

    def __init__(self, side: int, *, scales: int = 2, angles: int = 8) -> None:
        self._margin = 2**scales
        size = side + 2 * self._margin
        if side % 2**scales:
            raise ValueError(f"the side must be a multiple of {2**scales}, got {side}")
        turns = [t * math.pi / angles for t in range(angles)]
        self._wavelets = [
            torch.stack(
                [
                    torch.fft.fft2(_morlet(size, 0.8 * 2**j, turn, 3 / 4 * math.pi / 2**j, 4 / angles))
                    for turn in turns
                ]
            ).to(torch.complex64)
            for j in range(scales)
        ]
        kept = torch.arange(self._margin, self._margin + side, 2**scales)
        self._means = [
            _averages(size, 0.8 * 2 ** (scales - 1), kept)[:, :: 2**j] * 2**j for j in range(scales)
        ]

    def _averaged(self, maps: Tensor, scale: int) -> Tensor:
        """[images, …, size, size] to [images, paths, side/2^J, side/2^J]."""
        mean = self._means[scale]
        return (mean @ maps @ mean.T).flatten(1, -3)

    def _piece(self, images: Tensor) -> Tensor:
        wide = F.pad(images[:, None], (self._margin,) * 4, mode="reflect")
        spectrum = torch.fft.fft2(wide)
        found = [self._averaged(wide, 0)]
        for j, wavelets in enumerate(self._wavelets):
            first = torch.fft.ifft2(_folded(spectrum * wavelets, 2**j)).abs()
            found.append(self._averaged(first, j))
            if j + 1 == len(self._wavelets):
                break
            again = torch.fft.fft2(first)[:, :, None]
            for further in range(j + 1, len(self._wavelets)):
                coarser = _folded(self._wavelets[further], 2**j) * 4**j
                second = torch.fft.ifft2(_folded(again * coarser, 2 ** (further - j))).abs()
                found.append(self._averaged(second, further))
        return torch.cat(found, 1)

    @torch.no_grad()
    def __call__(self, images: Tensor) -> Tensor:
        return torch.cat([self._piece(piece) for piece in images.split(_PIECE)])


def _averages(size: int, deviation: float, kept: Tensor) -> Tensor:
    """The matrix of Gaussian averages around the places in ``kept``, whose rows have the sum 1."""
    away = torch.arange(size, dtype=torch.float64) - kept[:, None]
    weights = (-(away**2) / (2 * deviation**2)).exp()
    return (weights / weights.sum(1, keepdim=True)).float()


def _folded(spectra: Tensor, step: int) -> Tensor:
    """The spectrum of every ``step``-th pixel: aliases added up."""
    parts = [part for rows in spectra.chunk(step, -2) for part in rows.chunk(step, -1)]
    total = parts[0].clone()
    for part in parts[1:]:
        total += part
    return total / step**2
