"""Sums of encoded per-example gradients. Each gradient is written out."""

from collections.abc import Callable
from typing import final

import torch
from torch import Tensor, nn

from privet.training.clipping import Clip
from privet.training.double_precision import zeros_float64
from privet.training.extras.encoding import Encoding
from privet.training.per_example import Layout
from privet.training.per_example.fallback import BruteForce
from privet.training.per_example.forms.gradient_form import squared_row_norms
from privet.training.per_example.refusals import require_finite, require_rows, require_uncoupled_modules

__all__ = ["EncodedSums"]

_NUMBERS = 1 << 25  # in the gradients that are written out at one time


@final
class EncodedSums:
    """Adds encoded per-example gradients into one flat buffer, as ``ClippedSums`` adds clipped gradients.

    *Guarantee*: adding or removing one example moves the sum by at most ``clipping.bound``, up to the
    rounding of the sum. Each example goes through the model alone, so no other example changes its code.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Callable[[Tensor, Tensor], Tensor],
        clipping: Clip,
        encoding: Encoding,
    ) -> None:
        require_uncoupled_modules(model)
        self._model = model
        self.clipping = clipping
        self.layout = Layout.of(model)
        self._encoding = encoding
        self._brute_force = BruteForce(model, loss)
        self.numbers_per_example = 0  # for each example: ``add`` splits the lot itself

    def add(
        self, inputs: tuple[Tensor, ...], targets: Tensor, out: Tensor, *, overwrite: bool = False
    ) -> Tensor:
        """out += Σ_b code(c_b·g_b). Return the squared norms ‖g_b‖² before clipping, in float64.

        With ``overwrite`` the sum replaces the content of ``out``. If a gradient is not finite, this raises
        and leaves ``out`` unchanged.
        """
        require_uncoupled_modules(self._model)  # again: frozen layers may have been set to training mode
        batch = require_rows(inputs, targets)
        norms = zeros_float64(batch, targets.device)
        each = max(1, _NUMBERS // self.layout.size)
        codes = torch.zeros_like(out)
        for start in range(0, batch, each):
            part = slice(start, start + each)
            gradients = self._brute_force.gradients(
                list(self.layout.names), tuple(x[part] for x in inputs), targets[part]
            )
            rows = torch.cat([gradient.flatten(1) for gradient in gradients], 1)
            norms[part] = squared_row_norms(rows)
            require_finite(norms[part])
            factors = self.clipping.factors(norms[part]).to(rows.device, rows.dtype)
            codes += self._encoding.encode(rows.mul_(factors.unsqueeze(1)), self.clipping.bound).sum(0)
        if overwrite:
            out.copy_(codes)
        else:
            out += codes
        return norms
