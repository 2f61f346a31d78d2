"""Taps of layers that users register: a rule of their own, checked on the lots on which it is first used.

A rule is a function that writes the per-example gradients out, or a ``LayerRule`` that gives their norms and
sums without writing them out. A wrong rule would break the clip bound. So the first lots compare it with
autograd on a few examples, and a rule that differs is refused.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar, final

import torch
from torch import Tensor, nn

from privet.arguments import format_value
from privet.errors import InvalidArgument
from privet.torch_internals import get_parameters
from privet.training.double_precision import to_float64
from privet.training.per_example.forms.gradient_form import DenseForm, GradientForm, OutputGradient
from privet.training.per_example.taps.tape import LayerCall, Tap, Tape

__all__ = ["GradientFunction", "LayerRule", "RegisteredTap", "find_rule", "register_rule"]

_CHECKED_CALLS = 2
_CHECKED_EXAMPLES = 3
_TOLERANCE = {torch.float64: 1e-8}
_FLOAT32_TOLERANCE = 1e-4

GradientFunction: TypeAlias = Callable[[nn.Module, tuple[Tensor, ...], Tensor], Mapping[str, Tensor]]
"""rule(layer, inputs, gradient) → {parameter name: gradients [examples, *shape of the parameter]}."""


class LayerRule(ABC):
    """Norms and sums of the per-example gradients of one kind of layer.

    ``inputs`` are the tensors that the layer was called with, and ``gradient`` is the gradient of its output.
    All have the shape [examples, rows, …]: the model may call the layer with several rows per example
    ([examples·rows, …]), and rows is 1 if it does not. The gradient of an example is the sum over its rows.

    Every method returns one entry for each trainable parameter of the layer, by its name in the layer.
    """

    @abstractmethod
    def squared_norms(
        self, layer: nn.Module, inputs: tuple[Tensor, ...], gradient: Tensor
    ) -> Mapping[str, Tensor]:
        """‖∂loss_b/∂parameter‖² for each example b, [examples]. Add up squares in float64."""

    @abstractmethod
    def weighted_sums(
        self, layer: nn.Module, inputs: tuple[Tensor, ...], gradient: Tensor, factors: Tensor
    ) -> Mapping[str, Tensor]:
        """Σ_b factors_b · ∂loss_b/∂parameter, in the shape of the parameter."""


Rule: TypeAlias = LayerRule | GradientFunction
RuleOrClass = TypeVar(
    "RuleOrClass", bound="LayerRule | type[LayerRule] | Callable[..., Mapping[str, Tensor]]"
)

_RULES: dict[type[nn.Module], Rule] = {}


def register_rule(kind: type[nn.Module], rule: object) -> None:
    """Use this rule for layers of exactly this type, in runs that begin from now on."""
    if inspect.isclass(rule) and issubclass(rule, LayerRule):
        rule = rule()
    if not isinstance(rule, LayerRule) and not callable(rule):
        raise InvalidArgument(
            f"'rule' must be a function or a LayerRule, got {format_value(rule)}. Decorate a function "
            f"rule(layer, inputs, gradient) that returns the gradients of each example by parameter name."
        )
    _RULES[kind] = rule


def find_rule(kind: type[nn.Module]) -> Rule | None:
    """The rule of this type; None if it has none."""
    return _RULES.get(kind)


@final
class RegisteredTap(Tap):
    """A layer whose rule a user has registered."""

    __slots__ = ("_checked", "_forward", "_rule")

    def __init__(self, module: nn.Module, number: int, indices: dict[str, int], tape: Tape) -> None:
        super().__init__(module, number, indices, tape)
        rule = find_rule(type(module))
        assert rule is not None
        self._rule: Rule = rule
        self._forward: Callable[..., Any] = type(module).forward
        self._checked = 0

    @staticmethod
    def supports(module: nn.Module) -> bool:
        own = get_parameters(module)
        is_plain = all(p is None or type(p) is nn.Parameter for p in own.values())
        return is_plain and len(list(module.parameters())) == sum(p is not None for p in own.values())

    def forward(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - whatever the layer takes and returns
        bound = inspect.signature(self._forward).bind(self.module, *args, **kwargs)
        tensors = bound.args[1:]
        y = None
        if tensors and not bound.kwargs and all(isinstance(x, Tensor) and x.dim() > 0 for x in tensors):
            y = self._compute(*args, **kwargs)
            rows = {x.shape[0] for x in tensors}
            if not (isinstance(y, Tensor) and y.dim() > 0 and {y.shape[0]} == rows):
                y = None
        if y is None:  # no rule for such a call: the parameters stay in the graph, for brute force
            return self._forward(self.module, *args, **kwargs)
        y = y.clone()  # its node must be its own
        self.tape.record(self, y, (y.shape[0],), tensors)
        return y

    def _compute(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        """What the layer computes, with detached parameters in the place of its own."""
        own = get_parameters(self.module)
        parameters = dict(own)
        try:
            own.update({name: self.detach_parameter(name) for name in self.indices})  # type: ignore[misc]
            return self._forward(self.module, *args, **kwargs)
        finally:
            own.update(parameters)

    def build_forms(
        self, call: LayerCall, gradient: OutputGradient, saved: tuple[Tensor, ...]
    ) -> Iterator[tuple[int, GradientForm]]:
        inputs = tuple(t.detach() for t in saved)
        rows = gradient.rows
        if isinstance(self._rule, LayerRule):
            shared = _RuleResults(self._rule, self.module, inputs, rows)
            forms: dict[str, GradientForm] = {name: _RuleForm(name, shared) for name in self.indices}
        else:
            written = self._rule(self.module, inputs, rows)
            self._require_names(written)
            forms = {name: DenseForm(written[name]) for name in self.indices}
        if self._checked < _CHECKED_CALLS and bool(rows.any()):
            self._require_same_as_autograd(forms, inputs, rows)
            self._checked += 1
        for name, index in self.indices.items():
            yield index, forms[name]

    def _require_names(self, results: Mapping[str, Tensor]) -> None:
        missing = [name for name in self.indices if name not in results]
        if missing:
            raise InvalidArgument(
                f"The rule of {type(self.module).__name__} must give every trainable parameter, and it does "
                f"not give '{missing[0]}'. Add it to the dictionary that the rule returns."
            )

    def _require_same_as_autograd(
        self, forms: Mapping[str, GradientForm], inputs: tuple[Tensor, ...], gradient: Tensor
    ) -> None:
        """Compare norms and sums with autograd, one example at a time."""
        examples = range(min(len(gradient), _CHECKED_EXAMPLES))
        truth = [self._gradients_of(tuple(x[b] for x in inputs), gradient[b]) for b in examples]
        for name, form in forms.items():
            rows = to_float64(torch.stack([gradients[name] for gradients in truth]).flatten(1))
            tolerance = _TOLERANCE.get(gradient.dtype, _FLOAT32_TOLERANCE)
            norms = form.squared_norms()
            factors = torch.zeros(len(gradient), dtype=gradient.dtype, device=gradient.device)
            factors[: len(rows)] = torch.linspace(
                0.5, 1.0, len(rows), dtype=gradient.dtype, device=gradient.device
            )
            total = torch.zeros_like(truth[0][name])
            form.add_sum(factors, total)
            size = rows.norm(dim=1)
            off_norm = (to_float64(norms[: len(rows)]).sqrt() - size).abs().max()
            off_sum = (to_float64(total).flatten() - to_float64(factors[: len(rows)]) @ rows).norm()
            bound = tolerance * float(size.max()) + 1e-30
            if norms.shape != (len(gradient),) or not (
                float(off_norm) <= bound and float(off_sum) <= 3 * bound
            ):
                raise InvalidArgument(
                    f"The rule of {type(self.module).__name__} must give the gradients that autograd gives, "
                    f"and for '{name}' it does not (or the layer is random, or mixes the rows of its input). "
                    f"Test it with privet.testing.check_layer."
                )

    def _gradients_of(self, inputs: tuple[Tensor, ...], gradient: Tensor) -> dict[str, Tensor]:
        """The gradients of one example, by autograd."""
        own = get_parameters(self.module)
        parameters = dict(own)
        leaves = {name: self.detach_parameter(name) for name in self.indices}
        try:
            own.update(leaves)  # type: ignore[arg-type]
            with torch.enable_grad():
                y = self._forward(self.module, *inputs)
                found = torch.autograd.grad(y, list(leaves.values()), gradient, allow_unused=True)  # type: ignore[arg-type]
        finally:
            own.update(parameters)
        return {
            name: torch.zeros_like(leaf) if g is None else g
            for (name, leaf), g in zip(leaves.items(), found, strict=True)
        }


class _RuleResults:
    """What a rule gives for all parameters of one call, computed once."""

    __slots__ = ("_factors", "_gradient", "_inputs", "_layer", "_norms", "_rule", "_sums")

    def __init__(
        self, rule: LayerRule, layer: nn.Module, inputs: tuple[Tensor, ...], gradient: Tensor
    ) -> None:
        self._rule, self._layer, self._inputs, self._gradient = rule, layer, inputs, gradient
        self._norms: Mapping[str, Tensor] | None = None
        self._factors: Tensor | None = None
        self._sums: Mapping[str, Tensor] = {}

    def squared_norms(self, name: str) -> Tensor:
        if self._norms is None:
            self._norms = self._rule.squared_norms(self._layer, self._inputs, self._gradient)
        return to_float64(self._norms[name])

    def weighted_sum(self, name: str, factors: Tensor) -> Tensor:
        if self._factors is not factors:
            self._sums = self._rule.weighted_sums(self._layer, self._inputs, self._gradient, factors)
            self._factors = factors
        return self._sums[name]

    def narrow(self, examples: slice) -> "_RuleResults":
        inputs = tuple(x[examples] for x in self._inputs)
        return _RuleResults(self._rule, self._layer, inputs, self._gradient[examples])

    def count_examples(self) -> int:
        return len(self._gradient)

    def new_factors(self) -> Tensor:
        return self._gradient.new_zeros(len(self._gradient))


@final
class _RuleForm(GradientForm):
    """The gradients of one parameter by a ``LayerRule``."""

    __slots__ = ("_name", "_results")

    description = "norms and sums by the registered rule"

    def __init__(self, name: str, results: _RuleResults) -> None:
        self._name, self._results = name, results

    def squared_norms(self) -> Tensor:
        return self._results.squared_norms(self._name)

    def add_sum(self, factors: Tensor, out: Tensor) -> None:
        out += self._results.weighted_sum(self._name, factors).view_as(out)

    def narrow(self, examples: slice) -> "_RuleForm":
        return _RuleForm(self._name, self._results.narrow(examples))

    def to_dense(self) -> Tensor:
        """Row by row: the sum with the factor 1 for one example."""
        rows = []
        for example in range(self._results.count_examples()):
            factors = self._results.new_factors()
            factors[example] = 1.0
            rows.append(self._results.weighted_sum(self._name, factors).clone())
        return torch.stack(rows)
