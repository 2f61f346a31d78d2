"""A variational autoencoder of public pictures as a prior. It needs torch."""

from dataclasses import dataclass, field
from typing import final

import numpy as np
import torch
from torch import Tensor, nn

from privet.arguments import at_least, whole
from privet.attacks.inversion.prototypes.pictures import read_pictures
from privet.attacks.inversion.prototypes.priors import PicturePrior
from privet.views import Numbers, Rows

__all__ = ["VAEPrior"]


@final
@dataclass(frozen=True, eq=False)
class VAEPrior(PicturePrior):
    """The decoder of a small variational autoencoder (Kingma & Welling 2014), learnt from public pictures.

    ``penalty`` × ‖z‖²/2 draws the latents z to the middle, as the prior of the autoencoder does.
    """

    decoder: nn.Module = field(repr=False)
    shape: tuple[int, ...]
    latents: int
    penalty: float = 0.0
    rate: float = 0.1

    @classmethod
    def learn(
        cls,
        public: Rows,
        latents: int = 32,
        *,
        width: int = 256,
        steps: int = 1500,
        penalty: float = 0.0,
        seed: int = 0,
    ) -> "VAEPrior":
        """From public pictures of other people."""
        pictures = read_pictures("public", public)
        whole("latents", latents)
        whole("width", width)
        whole("steps", steps)
        at_least("penalty", penalty, 0)
        generator = torch.Generator().manual_seed(whole("seed", seed, least=0))
        rows = torch.as_tensor(pictures.reshape(len(pictures), -1), dtype=torch.float32)
        encoder = _network(rows.shape[1], width, 2 * latents, generator)
        decoder = _network(latents, width, rows.shape[1], generator)
        with torch.no_grad():  # start from the mean picture
            last = decoder[-1]
            assert isinstance(last, nn.Linear)
            last.bias.copy_(torch.logit(rows.mean(dim=0).clamp(0.01, 0.99)))
        optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
        for _ in range(steps):
            drawn = rows[torch.randint(len(rows), (min(64, len(rows)),), generator=generator)]
            mean, log_spread = encoder(drawn).chunk(2, dim=1)
            latent = mean + log_spread.exp() * torch.randn(mean.shape, generator=generator)
            # Pixels have a standard deviation of 0.1 around the decoder's picture.
            missed = ((torch.sigmoid(decoder(latent)) - drawn) ** 2).sum(dim=1) / (2 * 0.1**2)
            surprise = 0.5 * (mean**2 + (2 * log_spread).exp() - 1 - 2 * log_spread).sum(dim=1)
            loss = (missed + surprise).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        for parameter in decoder.parameters():
            parameter.requires_grad_(False)
        return cls(decoder, pictures.shape[1:], latents, penalty)

    def start(self, count: int) -> Numbers:
        return np.zeros((count, self.latents))

    def pictures(self, latents: Numbers) -> Numbers:
        with torch.no_grad():
            drawn: Numbers = self._draw(torch.as_tensor(latents, dtype=torch.float32)).double().numpy()
        return drawn

    def pull_back(self, latents: Numbers, gradients: Numbers) -> Numbers:
        inputs = torch.as_tensor(latents, dtype=torch.float32).requires_grad_()
        with torch.enable_grad():
            drawn = self._draw(inputs)
            (pulled,) = torch.autograd.grad(drawn, inputs, torch.as_tensor(gradients, dtype=torch.float32))
        answer: Numbers = pulled.double().numpy() - self.penalty * latents
        return answer

    def keep_inside(self, latents: Numbers) -> Numbers:
        inside: Numbers = np.clip(latents, -4.0, 4.0)
        return inside

    def _draw(self, latents: Tensor) -> Tensor:
        drawn: Tensor = torch.sigmoid(self.decoder(latents)).reshape(-1, *self.shape)
        return drawn


def _network(inputs: int, width: int, outputs: int, generator: torch.Generator) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):  # the constructors draw weights, which are replaced below
        layers = nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, outputs))
    for layer in layers:  # from a generator of its own: torch's global state is not touched
        if isinstance(layer, nn.Linear):
            bound = layer.in_features**-0.5
            nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
            nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
    return layers
