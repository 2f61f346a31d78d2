"""A small diffusion model of pictures: noise is added step by step, and a network learns to predict it.

x_t = √ā_t·x + √(1 − ā_t)·ε, with ā_t falling from 1 to 0 by a cosine. The network predicts ε from x_t and t.
Deterministic sampling (DDIM) walks back from pure noise: the same noise always gives the same picture, so
copies are found by drawing much noise. The *denoising loss* of a picture, the mean squared error of ε at
some t, is lower for pictures that were trained on.

*Reference*: Ho, Jain & Abbeel 2020 (prediction of noise); Nichol & Dhariwal 2021 (cosine); Song, Meng & Ermon
2021, equation 12 with η = 0 (deterministic sampling); Carlini et al. 2023, section 5 (membership by the loss;
the noise is shared between pictures, which lowers its variance). For audits and demonstrations on a
processor: a network of fully connected layers on small pictures.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import numpy as np
import torch
from torch import Tensor, nn

from privet.arguments import positive, whole
from privet.attacks.inversion.prototypes.pictures import read_pictures
from privet.scores import Bits, Scores
from privet.views import Numbers, Rows

__all__ = ["PictureDiffusion"]

_FREQUENCIES = 16


@final
class _NoisePredictor(nn.Module):
    """Three hidden layers over the picture and the sines of t, with a short cut around each."""

    def __init__(self, pixels: int, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(pixels + 2 * _FREQUENCIES, width)
        self.hidden = nn.ModuleList(nn.Linear(width + 2 * _FREQUENCIES, width) for _ in range(2))
        self.last = nn.Linear(width, pixels)

    def forward(self, noisy: Tensor, time: Tensor) -> Tensor:
        angles = time[:, None] * torch.exp(torch.linspace(0.0, math.log(1000.0), _FREQUENCIES))
        marks = torch.cat([angles.sin(), angles.cos()], dim=1)
        states = nn.functional.silu(self.first(torch.cat([noisy, marks], dim=1)))
        for layer in self.hidden:
            states = states + nn.functional.silu(layer(torch.cat([states, marks], dim=1)))
        # The best linear guess of the noise stands beside the network, which learns what is left.
        predicted: Tensor = self.last(states) + _levels(time)[1][:, None] * noisy
        return predicted


@final
@dataclass(frozen=True, eq=False)
class PictureDiffusion:
    """A trained diffusion model. Pictures have numbers between 0 and 1."""

    network: nn.Module
    shape: tuple[int, ...]

    @classmethod
    def learn(
        cls,
        pictures: Rows,
        *,
        steps: int = 4000,
        width: int = 512,
        batch: int = 128,
        rate: float = 2e-3,
        seed: int = 0,
    ) -> "PictureDiffusion":
        """Train on these pictures; one that stands there twice is learnt twice."""
        rows = _to_rows(read_pictures("pictures", pictures))
        generator = torch.Generator().manual_seed(whole("seed", seed, least=0))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = _NoisePredictor(rows.shape[1], whole("width", width))
        optimizer = torch.optim.Adam(network.parameters(), lr=positive("rate", rate))
        count, size = whole("steps", steps), whole("batch", batch)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, count)
        for _ in range(count):
            drawn = rows[torch.randint(len(rows), (size,), generator=generator)]
            time = torch.rand(size, generator=generator)
            noise = torch.randn(drawn.shape, generator=generator)
            loss = ((network(_add_noise(drawn, noise, time), time) - noise) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        for parameter in network.parameters():
            parameter.requires_grad_(False)
        return cls(network.eval(), np.asarray(pictures).shape[1:])

    @torch.no_grad()
    def sample(self, count: int, *, steps: int = 50, seed: int = 0) -> Numbers:
        """Pictures from noise of this seed, by deterministic sampling."""
        generator = torch.Generator().manual_seed(whole("seed", seed, least=0))
        pixels = int(np.prod(self.shape))
        noisy = torch.randn((whole("count", count), pixels), generator=generator)
        times = torch.linspace(0.999, 0.0, whole("steps", steps) + 1)
        clean = noisy
        for now, then in pairwise(times):
            signal, noise_level = _levels(now)
            predicted = self.network(noisy, now.expand(count))
            clean = ((noisy - noise_level * predicted) / signal).clamp(-1.0, 1.0)
            predicted = (noisy - signal * clean) / noise_level  # that of the picture after it was clamped
            signal, noise_level = _levels(then)
            noisy = signal * clean + noise_level * predicted
        answer: Numbers = (0.5 * (clean + 1.0)).double().numpy().reshape(count, *self.shape)
        return answer

    @torch.no_grad()
    def denoising_losses(
        self, pictures: Rows, *, time: float = 0.25, draws: int = 16, seed: int = 0
    ) -> Numbers:
        """The mean squared error of the predicted noise, of each picture; all share the same noise."""
        rows = _to_rows(read_pictures("pictures", pictures))
        generator = torch.Generator().manual_seed(whole("seed", seed, least=0))
        total = torch.zeros(len(rows), dtype=torch.float64)
        at = torch.full((len(rows),), float(time))
        for _ in range(whole("draws", draws)):
            noise = torch.randn(rows.shape[1], generator=generator).expand_as(rows)
            missed = self.network(_add_noise(rows, noise, at), at) - noise
            total += (missed**2).mean(dim=1).double()
        answer: Numbers = (total / draws).numpy()
        return answer

    def score_members(self, pictures: Rows, members: Bits, *, time: float = 0.25, draws: int = 16) -> Scores:
        """The negative denoising loss of each picture, joined with the coin."""
        losses = self.denoising_losses(pictures, time=time, draws=draws)
        return Scores(-losses, np.asarray(members, dtype=np.bool_), "denoising loss")


def _levels(time: Tensor) -> tuple[Tensor, Tensor]:
    """√ā and √(1 − ā) at a time between 0 and 1."""
    angle = (0.5 * math.pi * time).clamp(max=0.5 * math.pi - 1e-3)
    return angle.cos(), angle.sin().clamp_min(1e-4)


def _add_noise(rows: Tensor, noise: Tensor, time: Tensor) -> Tensor:
    signal, noise_level = _levels(time)
    return signal[:, None] * rows + noise_level[:, None] * noise


def _to_rows(pictures: Numbers) -> Tensor:
    """Pictures as rows of numbers between −1 and 1."""
    return torch.as_tensor(2.0 * pictures.reshape(len(pictures), -1) - 1.0, dtype=torch.float32)
