"""A malicious server: a layer that sorts the examples into bins, so that each leaves an imprint of its own.

All neurons of one *direction* h compute ReLU(h·x − t) with growing thresholds t. The next layer treats them
alike, so an example sends the same signal g back to every neuron that it activates. The difference between
the gradients of two neighbours is then Σ g x over the examples whose h·x lies between their thresholds: a
bin. An example that is alone in its bin is read off, up to round-off, whatever the batch size (Fowl et al.
2022, "Robbing the Fed", section 3).

With several directions, examples that share a bin in one are apart in another. The model is public, so it is
known which signal a row would send back with each label; where that is what its bin shows, the row is no
mixture. It is subtracted from its bins in all directions, which may leave others alone in theirs. This
*peeling* empties nearly all bins as long as there are more neurons than examples, as in an invertible Bloom
lookup table (Goodrich & Mitzenmacher 2011). The sum over many clients is only a larger batch: secure
aggregation alone stops nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor, nn

from privet.arguments import positive, whole
from privet.attacks.inversion.gradients.attack import GradientInversion, Reconstructions, check_messages
from privet.attacks.inversion.gradients.public_model import PublicModel
from privet.errors import InvalidArgument
from privet.shared_gradients import SharedGradient
from privet.views import Adversary, Numbers, Rows

__all__ = ["Imprint", "ImprintModel"]


@final
class ImprintModel(nn.Module):
    """A module with an imprint layer beside it: logits(x) + a small signal of the layer.

    The thresholds of each direction are quantiles over ``public`` inputs, so that bins are about equally
    full.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        classes: int,
        public: Rows,
        neurons: int = 1024,
        directions: int = 3,
        seed: int = 0,
    ) -> None:
        super().__init__()
        whole("classes", classes, least=2)
        whole("directions", directions)
        whole("neurons", neurons, least=2 * directions)
        rows = np.asarray(public, dtype=np.float64).reshape(len(public), -1)
        if len(rows) < 2 or not np.isfinite(rows).all():
            raise InvalidArgument(
                f"'public' must hold at least two finite inputs, got {len(rows)} rows. Give a hundred "
                f"inputs or more like those to recover."
            )
        generator = np.random.default_rng(seed)
        axes = generator.standard_normal((directions, rows.shape[1])) / np.sqrt(rows.shape[1])
        axes[0] = 1.0 / rows.shape[1]  # the brightness, as in the paper
        self.module, self.directions, self.bins = module, directions, neurons // directions
        thresholds = np.stack([_thresholds(rows @ axis, self.bins) for axis in axes])
        self.imprint = nn.Linear(rows.shape[1], self.bins * directions)
        self.signal = nn.Linear(self.bins * directions, classes, bias=False)
        self.signal_size = 1e-3 / self.bins
        sides = torch.ones(classes)
        sides[1::2] = -1.0  # g = Σ ±(p − y) is far from 0 for every label
        with torch.no_grad():
            self.imprint.weight.copy_(torch.as_tensor(np.repeat(axes, self.bins, axis=0)))
            self.imprint.bias.copy_(torch.as_tensor(-thresholds.ravel()))
            self.signal.weight.copy_(sides[:, None].expand(-1, self.bins * directions) * self.signal_size)

    def forward(self, inputs: Tensor) -> Tensor:
        """The logits of the module, and the signal on top."""
        if inputs.ndim < 2:
            raise InvalidArgument(
                f"'inputs' must have one row for each example, got a tensor of shape {tuple(inputs.shape)}. "
                f"Give examples × the shape of one."
            )
        logits: Tensor = self.module(inputs)
        signal: Tensor = self.signal(self.imprint(inputs.flatten(1)).relu())
        return logits + signal


@final
@dataclass(frozen=True, eq=False)
class Imprint(GradientInversion):
    """Reads the bins of an ``ImprintModel`` and peels them.

    *Adversary*: built the model, as a malicious server can; sees a gradient, or the mean over many clients;
    wants the examples behind it.

    Rows that were not found are NaN. The confidence is the number of bins that showed the row when it was
    found.

    *Reference*: Fowl, Geiping, Czaja, Goldblum & Goldstein 2022. Deviations: several directions, verification
    and peeling; the layer stands beside the model, not before it.
    """

    tolerance: float = 3e-3

    name = "imprint"
    adversary = Adversary(
        sees="a gradient, or the mean of the gradients of many clients",
        knows="the model, which they built themselves",
        wants="the examples behind the gradient",
    )

    def __post_init__(self) -> None:
        positive("tolerance", self.tolerance)

    def recover(self, model: PublicModel, shared: Sequence[SharedGradient]) -> Reconstructions:
        check_messages(shared)
        module = model.module
        if not isinstance(module, ImprintModel):
            raise InvalidArgument(
                f"'model' must be a PublicModel of an ImprintModel, got {type(module).__name__}. Build one "
                f"with ImprintModel, or take an attack on honest models, such as FirstLayer."
            )
        model.read(shared)
        examples = shared[0].examples
        inputs = np.full((len(shared), examples, int(np.prod(model.shape))), np.nan)
        confidence = np.zeros((len(shared), examples))
        for place, message in enumerate(shared):
            rows, counts = self._peel(model, module, message)
            inputs[place, : len(rows)], confidence[place, : len(rows)] = rows, counts
        return Reconstructions(
            inputs.reshape(len(shared), examples, *model.shape),
            np.zeros((len(shared), examples), dtype=np.int64),
            confidence,
        )

    def _peel(
        self, model: PublicModel, module: ImprintModel, message: SharedGradient
    ) -> tuple[Numbers, Numbers]:
        axes = module.imprint.weight.detach().double().cpu().numpy()[:: module.bins]
        thresholds = (
            -module.imprint.bias.detach().double().cpu().numpy().reshape(module.directions, module.bins)
        )
        bins = _bin_sums(message, module)
        least = 1e-2 * module.signal_size  # no single example sends back less
        rows, counts = np.zeros((0, axes.shape[1])), np.zeros(0)
        while len(rows) < message.examples:
            places = np.argwhere(np.abs(bins[..., -1]) > least)
            sums = bins[places[:, 0], places[:, 1]]
            fresh = sums[:, :-1] / sums[:, -1:]
            good = self._fits(model, module, fresh, sums[:, -1])
            places, sums, fresh = places[good], sums[good], fresh[good]
            if not len(fresh):
                break
            homes = np.stack(
                [np.searchsorted(t, fresh @ a) - 1 for a, t in zip(axes, thresholds, strict=True)], axis=1
            )
            homes = homes.clip(0, module.bins - 1)
            homes[np.arange(len(homes)), places[:, 0]] = places[
                :, 1
            ]  # a row near a threshold may round to its neighbour
            shown = bins[np.arange(module.directions), homes]  # rows × directions × sums
            gaps = np.linalg.norm(shown - sums[:, None], axis=2)
            votes = (gaps <= self.tolerance * np.linalg.norm(sums, axis=1)[:, None]).sum(axis=1)
            taken: set[tuple[int, int]] = set()
            kept: list[int] = []
            for place in np.argsort(-votes, kind="stable"):  # the best witnessed first
                homes_of = set(enumerate(map(int, homes[place])))
                if len(rows) + len(kept) < message.examples and not homes_of & taken:
                    kept.append(int(place))
                    taken |= homes_of  # bins that were changed in this round are read again in the next
            for place in kept:
                bins[np.arange(module.directions), homes[place]] -= sums[place]
            rows, counts = np.concatenate([rows, fresh[kept]]), np.concatenate([counts, votes[kept]])
        return rows, counts

    def _fits(self, model: PublicModel, module: ImprintModel, rows: Numbers, totals: Numbers) -> np.ndarray:
        """Whether a row, with some label, would send back the signal that its bin shows. A mixture would
        not."""
        with torch.no_grad():
            inputs = torch.tensor(rows, dtype=model.dtype, device=model.device).reshape(-1, *model.shape)
            confidences = model.predict(inputs).softmax(dim=1).double().cpu().numpy()
        sides = module.signal.weight[:, 0].detach().double().cpu().numpy()
        expected = confidences @ sides
        gaps = np.abs((expected[:, None] - sides[None, :]) - totals[:, None])
        fits: np.ndarray = gaps.min(axis=1) <= self.tolerance * module.signal_size
        return fits


def _bin_sums(message: SharedGradient, module: ImprintModel) -> Numbers:
    """Σ g (x, 1) of each bin: directions × bins × (inputs + 1)."""
    both = np.concatenate(
        [message.gradients["imprint.weight"], message.gradients["imprint.bias"][:, None]], axis=1
    ).reshape(module.directions, module.bins, -1)
    both = both * message.examples
    above = np.concatenate([both[:, 1:], np.zeros_like(both[:, :1])], axis=1)
    answer: Numbers = both - above
    return answer


def _thresholds(projections: Numbers, bins: int) -> Numbers:
    """Quantiles, with the lowest so far below that no input is under it."""
    inner: Numbers = np.quantile(projections, np.arange(bins) / bins)
    inner[0] = projections.min() - 2.0 * np.ptp(projections) - 1.0
    return inner
