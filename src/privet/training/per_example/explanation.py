"""How each parameter's per-example gradients are computed, what that costs, and what would make it faster."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import final

from torch import nn

from privet.torch_internals import get_parameters
from privet.training.per_example.taps.register import find_tap

__all__ = ["Explanation", "Handling", "ParameterHandling", "explain_parameters"]

_WRITTEN_OUT = "written out by brute force"
_NOT_USED = "no gradient in the last lot"
_MEGABYTE = 1 << 20


@final
@dataclass(frozen=True)
class Handling:
    """How one parameter was handled in a lot: in words, and the numbers written out for each example."""

    method: str
    written_out: int = 0


@final
@dataclass(frozen=True)
class ParameterHandling:
    """One row of an ``Explanation``.

    ``written_out`` is the number of bytes that one example needs in memory for this parameter; 0 if nothing
    is written out. ``reason`` and ``advice`` are empty unless brute force handles the parameter.
    """

    name: str
    shape: tuple[int, ...]
    layer: str
    method: str
    written_out: int
    reason: str = ""
    advice: str = ""

    @property
    def is_brute_force(self) -> bool:
        """Whether every example goes through the model alone for this parameter."""
        return self.method == _WRITTEN_OUT


@final
@dataclass(frozen=True)
class Explanation:
    """How the per-example gradients of every trainable parameter are computed. Print it.

    It depends on the model and the shapes of the inputs, not on the values of the data.
    """

    parameters: tuple[ParameterHandling, ...]
    one_by_one: bool = False
    """Whether brute force runs the examples one after another: ``torch.func`` cannot map the model."""

    def __iter__(self) -> Iterator[ParameterHandling]:
        return iter(self.parameters)

    @property
    def written_out(self) -> int:
        """The bytes that one example needs for gradients that are written out."""
        return sum(p.written_out for p in self.parameters)

    def __str__(self) -> str:
        brute = [p for p in self.parameters if p.is_brute_force]
        lines = [_summarise(self, brute), ""]
        width = max((len(p.name) for p in self.parameters), default=0)
        sizes = [" × ".join(map(str, p.shape)) or "1" for p in self.parameters]
        across = max(map(len, sizes), default=0)
        for p, size in zip(self.parameters, sizes, strict=True):
            memory = f", {_format_bytes(p.written_out)} an example" if p.written_out else ""
            lines.append(f"{p.name:<{width}}  {size:>{across}}  {p.method}{memory}")
        for reason, advice in dict.fromkeys((p.reason, p.advice) for p in brute):
            names = [p.name for p in brute if (p.reason, p.advice) == (reason, advice)]
            shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
            lines += ["", f"{shown}: {reason}", f"  {advice}"]
        return "\n".join(lines)

    __repr__ = __str__


def explain_parameters(
    model: nn.Module,
    names: tuple[str, ...],
    handled: Mapping[int, Handling],
    brute_forced: frozenset[int],
    one_by_one: bool,
) -> Explanation:
    """The explanation of one lot. ``handled`` are the parameters by their index in the layout."""
    owners: dict[int, list[nn.Module]] = {}
    for module in model.modules():
        for own in get_parameters(module).values():
            if own is not None:
                owners.setdefault(id(own), []).append(module)
    parameters = dict(model.named_parameters())
    rows = []
    for index, name in enumerate(names):
        parameter = parameters[name]
        modules = owners[id(parameter)]
        layer = ", ".join(dict.fromkeys(type(m).__name__ for m in modules))
        size = parameter.element_size()
        shape = tuple(parameter.shape)
        if index in brute_forced:
            reason, advice = _find_reason(modules, parameter)
            written = parameter.numel() * size
            rows.append(ParameterHandling(name, shape, layer, _WRITTEN_OUT, written, reason, advice))
        else:
            handling = handled.get(index, Handling(_NOT_USED))
            rows.append(ParameterHandling(name, shape, layer, handling.method, handling.written_out * size))
    return Explanation(tuple(rows), one_by_one and bool(brute_forced))


def _find_reason(modules: list[nn.Module], parameter: nn.Parameter) -> tuple[str, str]:
    """Why brute force handles a parameter of these modules, and what would make it faster."""
    without = [m for m in modules if find_tap(m) is None]
    if not without:
        return (
            "it is used outside of its layer too, or the layer's rows could not be assigned to examples.",
            "Let only the layer use the parameter, and let the first size of its input be the examples.",
        )
    kind = type(without[0])
    if "forward" in without[0].__dict__:
        return (
            f"the forward of this {kind.__name__} was replaced.",
            "Put the change into a subclass and register it with privet.training.register_layer.",
        )
    if type(parameter) is not nn.Parameter:
        return f"it is a {type(parameter).__name__}.", "Use a plain nn.Parameter."
    known = next((base for base in kind.__mro__[1:] if base.__module__.startswith("torch.nn.")), nn.Module)
    if known is nn.Module or known is kind:
        reason = f"there is no rule for how {kind.__name__} uses it."
    else:
        reason = f"{kind.__name__} is a subclass of nn.{known.__name__}, and may compute anything."
    if any(own is not None for child in without[0].children() for own in child.parameters()):
        advice = "Move it into a layer of its own, and write a rule for that: privet.training.register_layer."
    else:
        advice = f"Write a rule: @privet.training.register_layer({kind.__name__}), see its help."
    if parameter.numel() < 10_000:
        advice += " It is small: the cost is the extra passes, not memory."
    return reason, advice


def _summarise(explanation: Explanation, brute: list[ParameterHandling]) -> str:
    if not brute:
        return (
            "All gradients come from one forward and one backward pass; none is written out by brute force."
        )
    way = "one after another" if explanation.one_by_one else "together, by torch.func"
    size = _format_bytes(sum(p.written_out for p in brute))
    return (
        f"{len(brute)} of {len(explanation.parameters)} parameters are written out by brute force: {size} an "
        f"example. Their gradients need a second pass, in which the examples run {way}."
    )


def _format_bytes(size: int) -> str:
    if size >= _MEGABYTE // 10:
        return f"{size / _MEGABYTE:.1f} MB"
    return f"{size / 1024:.1f} kB" if size >= 1024 else f"{size} bytes"
