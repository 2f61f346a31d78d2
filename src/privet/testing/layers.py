"""The law of a layer's rule: per-example gradients are those of autograd, one example at a time."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from privet.errors import InvalidArgument
from privet.testing.broken import require
from privet.training.per_example import ClippedSums
from privet.training.per_example.taps.register import find_tap

__all__ = ["check_layer"]

_TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-9}
_FACTORS = (1.0, 0.25)


class _FlattenedOutput(nn.Module):
    """A model that is the layer alone; its outputs are weighted and added up for each example.

    With ``rows`` the inputs are [examples, rows, …], and the layer sees [examples·rows, …].
    """

    def __init__(self, layer: nn.Module, rows: int) -> None:
        super().__init__()
        self.layer, self.rows = layer, rows

    def forward(self, *inputs: Tensor) -> Tensor:
        y: Tensor = self.layer(*[x.flatten(0, 1) if self.rows > 1 else x for x in inputs])
        weights = torch.linspace(-1.0, 2.0, y[: self.rows].numel(), dtype=y.dtype, device=y.device)
        return (y.reshape(-1, weights.numel()) * weights).sin()


def _add_up(outputs: Tensor, targets: Tensor) -> Tensor:
    return outputs.sum(1) * (1 + targets)


class _Scaled:
    """Clip factors that do not depend on the norms, so that sums are compared on their own."""

    ceiling = None

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def factors(self, squared_norms: Tensor) -> Tensor:
        steps = torch.arange(1, len(squared_norms) + 1, device=squared_norms.device)
        return self.factor / steps.to(squared_norms)


def check_layer(layer: nn.Module, *inputs: Tensor) -> None:
    """Check the rule that ``privet.training.register_layer`` has for this layer, or Privet's own rule.

    The laws: an example's output depends on that example alone; norms and sums of per-example gradients are
    those of autograd, for each trainable parameter, with one and with several rows per example, in float32
    and in float64, and with some parameters frozen; the rule overwrites neither inputs nor gradients.

    Args:
        layer: a layer with a rule, in the mode in which it is trained.
        inputs: what the layer is called with. The first size is the number of examples, at least 2.

    Raises:
        LawBroken: if a law does not hold; the message names it.
    """
    if find_tap(layer) is None:
        raise InvalidArgument(
            f"'layer' must have a rule, and {type(layer).__name__} has none that fits it. Register one with "
            f"privet.training.register_layer."
        )
    if not inputs or any(x.dim() < 1 or len(x) != len(inputs[0]) or len(x) < 2 for x in inputs):
        raise InvalidArgument(
            "'inputs' must be tensors with the same number of examples, at least 2, got others. Give what "
            "the layer is called with, examples first."
        )
    name = type(layer).__name__
    before = {key: value.clone() for key, value in layer.state_dict().items()}
    flags = [p.requires_grad for p in layer.parameters()]
    dtype = next(layer.parameters()).dtype
    try:
        for precision in _TOLERANCE:
            layer.to(precision)
            cast = tuple(x.to(precision) if x.is_floating_point() else x for x in inputs)
            _check_separate(layer, name, cast)
            for _ in _freeze_in_turn(layer):
                for rows in (1, 2):
                    if len(cast[0]) >= 2 * rows:
                        _check_gradients(layer, name, cast, rows, precision)
    finally:
        layer.to(dtype)
        layer.load_state_dict(before)
        for parameter, flag in zip(layer.parameters(), flags, strict=True):
            parameter.requires_grad_(flag)


def _freeze_in_turn(layer: nn.Module) -> Iterator[None]:
    """All parameters as they are, then each trainable parameter alone."""
    trainable = [p for p in layer.parameters() if p.requires_grad]
    yield
    for own in trainable if len(trainable) > 1 else []:
        for parameter in trainable:
            parameter.requires_grad_(parameter is own)
        yield
    for parameter in trainable:
        parameter.requires_grad_(True)


def _check_separate(layer: nn.Module, name: str, inputs: tuple[Tensor, ...]) -> None:
    with torch.no_grad():
        together = layer(*inputs)
        alone = torch.cat([layer(*[x[i : i + 1] for x in inputs]) for i in range(len(inputs[0]))])
    size = float(together.abs().max()) + 1e-30
    is_same = together.shape == alone.shape and float((together - alone).abs().max()) <= 1e-4 * size
    require(is_same, f"an example's output of {name} depends on that example alone, and is not random")


def _check_gradients(
    layer: nn.Module, name: str, inputs: tuple[Tensor, ...], rows: int, precision: torch.dtype
) -> None:
    examples = len(inputs[0]) // rows
    shaped = tuple(
        x[: examples * rows].view(examples, rows, *x.shape[1:]) if rows > 1 else x.clone() for x in inputs
    )
    saved = [x.clone() for x in shaped]
    model = _FlattenedOutput(layer, rows)
    targets = torch.arange(examples, device=inputs[0].device, dtype=precision)
    parameters = {key: p for key, p in model.named_parameters() if p.requires_grad}
    truth: list[Tensor] = []
    for i in range(examples):
        loss = _add_up(model(*[x[i : i + 1] for x in shaped]), targets[i : i + 1]).sum()
        truth.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(parameters.values()))]))
    gradients = torch.stack(truth).double()
    tolerance = _TOLERANCE[precision] * (float(gradients.norm(dim=1).max()) + 1e-30)
    where = f"of {name}, {rows} row(s) per example, {', '.join(parameters)}"
    for factor in _FACTORS:
        clipping = _Scaled(factor)
        sums = ClippedSums(model, _add_up, clipping)
        total = sums.layout.zeros(shaped[0].device)
        try:
            norms = sums.add(shaped, targets, total)
        except InvalidArgument as refusal:
            require(False, f"the rule is accepted: {refusal}")
            raise
        off = (norms.sqrt() - gradients.norm(dim=1)).abs().max()
        require(float(off) <= tolerance, f"the norms are those of autograd, {where}")
        expected = clipping.factors(norms).double() @ gradients
        off = (total.double() - expected).norm()
        require(float(off) <= examples * tolerance, f"the sums are those of autograd, {where}")
    same = all(torch.equal(a, b) for a, b in zip(shaped, saved, strict=True))
    require(same, f"the rule does not overwrite the inputs of {name}")
