"""Clipped sums of per-example gradients: one forward pass, one backward pass, and no per-example gradients."""

import warnings
from collections.abc import Callable, Sequence
from typing import Protocol, final

import torch
from torch import Tensor, nn

from privet.callers import level_of_caller
from privet.errors import InvalidArgument
from privet.training.gradients.chains import Chain
from privet.training.gradients.couplings import Couplings
from privet.training.gradients.fallback import BruteForce
from privet.training.gradients.inventory import Inventory
from privet.training.gradients.layout import Layout
from privet.training.gradients.lookups import combined
from privet.training.gradients.losses import ignored_label, is_row_wise
from privet.training.gradients.passes import NO_CHECKS, Checks, Pass, Passes
from privet.training.gradients.plans import Stray
from privet.training.gradients.products import Direct, Gradient, Product
from privet.training.gradients.proofs import gradients_of, rows_apart
from privet.training.gradients.refusals import (
    CrossExample,
    cross_example_modules,
    require_finite,
    require_losses,
    require_rows,
)
from privet.training.gradients.register import taps_of
from privet.training.gradients.straight import Straight
from privet.training.gradients.strays import Reach
from privet.training.gradients.tape import Tape, Use

__all__ = ["ClippedSums", "Clipping"]


class Clipping(Protocol):
    """How far each example's gradient is scaled down."""

    @property
    def ceiling(self) -> float | None:
        """C, where the factors are min(1, C/‖g‖); None for any other rule."""
        ...

    def factors(self, squared_norms: Tensor) -> Tensor:
        """Clip factors for squared norms [examples], or [examples, groups]; of the same shape."""
        ...


@final
class ClippedSums:
    """Adds up clipped per-example gradients of a model into one flat buffer.

    Guarantee: with ``factors`` ≤ C/‖g‖, adding or removing one example moves the sum by at most C, up to
    rounding: norms are exact to about 1e-6 (float32 products, float64 sums), and so is the bound.

    The model is run as it is, in the mode it is in (evaluation mode with dropout is warned of); dropout draws its masks from torch's generator as in
    plain training. Buffers that the model updates in its forward pass are the model's own affair and are not
    protected.

    Example:
        >>> from privet.training.gradients import per_example
        >>> class Flat:
        ...     ceiling = None
        ...     def factors(self, squared_norms):
        ...         return (1.0 / squared_norms.sqrt()).clamp(max=1.0)
        >>> sums = ClippedSums(nn.Linear(3, 2), per_example(nn.CrossEntropyLoss()), Flat())
        >>> total = sums.layout.zeros()
        >>> sums.add((torch.ones(4, 3),), torch.tensor([0, 1, 1, 0]), total).shape
        torch.Size([4])
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Callable[[Tensor, Tensor], Tensor],
        clipping: Clipping,
        *,
        groups: Sequence[Sequence[str]] | None = None,
        stands_for: object = None,
    ) -> None:
        """``stands_for`` is the torch loss that ``loss`` computes for each example, if it is one."""
        self._ignored = ignored_label(loss if stands_for is None else stands_for)
        self._row_wise = is_row_wise(loss if stands_for is None else stands_for)
        self._model = model
        self._loss = loss
        self.clipping = clipping
        self.layout = Layout.of(model)
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._groups = _group_numbers(self.layout.names, groups)
        self._many = None if groups is None else len(groups)
        self._warned = not any(isinstance(m, nn.modules.dropout._DropoutNd) for m in model.modules())
        self._brute_forced: frozenset[int] = frozenset()
        self._look()
        self._out: Tensor | None = None
        self._views: list[Tensor] = []
        self.held: int | None = None
        """How many numbers were held for each example of the last lot; None before the first."""

    def _look(self) -> None:
        """Everything that is known of the model, from the beginning."""
        model, parameters = self._model, self._parameters
        self._frozen = cross_example_modules(model)
        self._inventory = Inventory(model)
        self._tape = Tape()
        indices = {id(p): i for i, p in enumerate(parameters)}
        self._taps = taps_of(model, indices, self._tape)
        self._chain = None if self._many is not None else Chain.of(model, indices)
        self._couplings = Couplings(model, self._loss, parameters)
        self._passes = Passes(model, self._loss, parameters, self._taps, self._tape, self._couplings)
        self._brute_force = BruteForce(model, self._loss)
        self._loose: set[int] = set()  # parameters that are not, or not only, used in tapped layers

    def _look_again(self) -> None:
        """After a change of the model: what was learnt is forgotten, and the parameters must be those of the layout."""
        found = [(name, p) for name, p in self._model.named_parameters() if p.requires_grad]
        same = len(found) == len(self._parameters) and all(
            name == known and p is own
            for (name, p), known, own in zip(found, self.layout.names, self._parameters, strict=True)
        )
        if not same:
            raise InvalidArgument(
                "'model' must keep the trainable parameters that it had at first, got others: one was replaced, added, "
                "removed, renamed, frozen or thawed. Make the private gradient anew after such a change, with a new optimiser."
            )
        self._look()

    @property
    def brute_forced(self) -> frozenset[int]:
        """The parameters, by their place in the layout, that the last lot took through brute force."""
        return self._brute_forced

    def add(self, inputs: tuple[Tensor, ...], targets: Tensor, out: Tensor, *, fresh: bool = False) -> Tensor:
        """out += Σ_b c_b·g_b; gives the squared norms ‖g_b‖², float64, before clipping.

        With ``groups`` the squared norms are [examples, groups]. Refused, with ``out`` untouched, if a
        gradient is not finite. With ``fresh`` the sum takes the place of what is in ``out``, whatever that is: large
        matrices are then neither zeroed nor read before.
        """
        batch = require_rows(inputs, targets)
        if not self._inventory.holds():
            self._look_again()
        if out is not self._out:
            self._views = self.layout.views(out)
            self._out = out
        if any(m.training for m in self._frozen):
            raise CrossExample(
                "'model' has batch normalisation in training mode, which mixes the examples of a batch. "
                "Call .eval() on it, or replace it by nn.GroupNorm."
            )
        shape = (batch,) if self._many is None else (batch, self._many)
        norms = torch.zeros(shape, dtype=torch.float64, device=targets.device)
        if not batch:
            if fresh:
                out.zero_()
            return norms
        if not (self._warned or self._model.training):
            self._warned = True
            warnings.warn(
                "The model is in evaluation mode, so dropout is off. Call model.train() before training.",
                stacklevel=level_of_caller(),
            )
        key = (tuple([x.shape[1:] for x in inputs]), targets.shape[1:], self._model.training)
        if self._chain is not None and self._row_wise and self._passes.has_begun(key):
            checks = NO_CHECKS  # examples are apart by construction
        else:
            checks = self._passes.begin(key, batch)
        if (
            self._chain is not None
            and not checks.rows
            and self._passes.has_begun(key)
            and self._chain.takes(inputs)
        ):
            if self._chained(self._chain, inputs[0], targets, norms, fresh):
                return norms
            self._chain = None
            norms.zero_()
        self._tape.scratch.begin()
        with torch.enable_grad():
            straight, products = self._products(key, inputs, targets, checks)
        with torch.no_grad():
            self._add_squared_norms(straight, products, norms)
        if checks.company and len(self._brute_forced) < len(self._parameters):
            self._couplings.require_same_alone(inputs, targets, norms)
        with torch.no_grad():
            self._put_sums(straight, products, norms, fresh)
        return norms

    def _chained(self, chain: Chain, x: Tensor, targets: Tensor, norms: Tensor, fresh: bool) -> bool:
        """All of it for a chain of layers; False, with nothing added, if the loss is one that needs the usual way."""
        with torch.no_grad():
            inputs = chain.forward(x)
            gradient = (
                None
                if self._ignored is None
                else chain.entropy_gradient(inputs[-1], targets, self._ignored, norms)
            )
            outputs = None if gradient is not None else chain.outputs(inputs[-1])
        if outputs is not None:
            norms.zero_()
            gradient = self._loss_gradient(outputs, targets)
            if gradient is None:
                return False
            outputs = outputs.detach()
        assert gradient is not None
        with torch.no_grad():
            gradients = chain.backward(outputs, inputs, gradient, norms)
            ceiling = self.clipping.ceiling
            factors = None if ceiling is None else chain.factors(norms, ceiling)
            if factors is None:
                require_finite(norms)
                factors = self.clipping.factors(norms).to(torch.float32)
            chain.put_sums(inputs, gradients, factors, self._views, fresh)
        self.held = chain.width
        self._brute_forced = frozenset()
        return True

    def _loss_gradient(self, outputs: Tensor, targets: Tensor) -> Tensor | None:
        """The gradient of the losses at the outputs; None if the loss needs the outputs in the middle of a graph."""
        version = outputs._version
        with torch.enable_grad():
            try:
                losses = self._loss(outputs.requires_grad_(), targets)
            except RuntimeError:
                return None  # it may write to the outputs
            require_losses(losses, targets.shape[0])
            wanted = [outputs, *self._parameters]
            gradient, *outside = gradients_of(
                losses, torch.ones_like(losses), wanted, keep=not self._row_wise
            )
            if gradient is not None and not self._row_wise and not rows_apart(losses, outputs, gradient):
                return None
        if gradient is None or outputs._version != version or any(g is not None for g in outside):
            return None
        return (
            gradient
            if gradient.is_contiguous() and 0 not in gradient.stride()
            else gradient.clone(memory_format=torch.contiguous_format)
        )

    def _add_squared_norms(self, straight: Straight, products: dict[int, Product], norms: Tensor) -> None:
        """norms += the squared norms of all parameters, which must be finite."""
        if straight.places:
            straight.add_squared_norms(norms)
        columns = [norms] if self._many is None else list(norms.unbind(1))
        for index, product in products.items():
            columns[self._groups[index]] += product.squared_norms()
        require_finite(norms)

    def _put_sums(self, straight: Straight, products: dict[int, Product], norms: Tensor, fresh: bool) -> None:
        """The clip factors, and the clipped sums."""
        places = straight.places
        factors = self.clipping.factors(norms).to(self.layout.dtype)
        if places:
            straight.put_sums(factors, self._views, fresh)
        by_group = [factors] if self._many is None else [c.contiguous() for c in factors.unbind(1)]
        for index, product in products.items():
            put = product.set_sum if fresh else product.add_sum
            put(by_group[self._groups[index]], self._views[index])
        if fresh and len(places) + len(products) < len(self._views):
            for index in set(range(len(self._views))).difference(places, products):
                self._views[index].zero_()  # without a gradient in this lot

    def _products(
        self, key: object, inputs: tuple[Tensor, ...], targets: Tensor, checks: Checks
    ) -> tuple[Straight, dict[int, Product]]:
        """The gradients of every parameter, each in the form that its layers allow."""
        batch = targets.shape[0]
        found = self._passes.run(key, inputs, targets, self._loose, checks)
        uses, followed = found.uses, found.followed
        self._loose.update(found.outside)
        loose = self._loose | found.unproved
        shared = {stray.number for stray, _ in followed if stray.call}
        for i, (use, place, gradient) in enumerate(zip(uses, found.places, found.gradients, strict=False)):
            if place is None and gradient is not None and i not in shared:
                loose.update(use.tap.indices.values())
        self.held = self._numbers(uses, found.gradients, loose, batch) // batch
        straight = Straight()
        with torch.no_grad():
            collected = self._tapped_products(found, batch, loose, straight)
            self._followed_products(uses, followed, found.gradients[len(uses) :], batch, loose, collected)
            products = {index: combined(parts) for index, parts in collected.items()}
        self._brute_forced = frozenset(loose)
        if loose:
            order = sorted(loose)
            rows = self._brute_force.gradients([self.layout.names[i] for i in order], inputs, targets)
            products.update({i: Direct(r) for i, r in zip(order, rows, strict=True)})
        return straight, products

    def _numbers(
        self, uses: list[Use], gradients: Sequence[Tensor | None], loose: set[int], batch: int
    ) -> int:
        """How many numbers the pass holds: inputs, gradients of outputs, and gradients that brute force writes out."""
        saved = sum(t.numel() for use in uses for t in use.saved)
        found = sum(gradient.numel() for gradient in gradients if gradient is not None)
        return saved + found + batch * sum(self._parameters[i].numel() for i in loose)

    def _followed_products(
        self,
        uses: list[Use],
        followed: list[tuple[Stray, list[Reach]]],
        gradients: Sequence[Tensor | None],
        batch: int,
        loose: set[int],
        collected: dict[int, list[Product]],
    ) -> None:
        """Adds the gradients of parameters and shared outputs that were followed through the graph."""
        at = 0
        for stray, reaches in followed:
            pairs = [
                (r, g)
                for r, g in zip(reaches, gradients[at : at + len(reaches)], strict=True)
                if g is not None
            ]
            at += len(reaches)
            if not pairs:
                continue
            if not stray.call:
                if stray.number not in loose:
                    shape = self.layout.shapes[stray.number]
                    collected.setdefault(stray.number, []).extend(
                        r.product(g, batch, shape) for r, g in pairs
                    )
                continue
            use = uses[stray.number]
            rows = [r.rows(g, batch) for r, g in pairs]
            total = sum(rows[1:], start=rows[0])
            gradient = Gradient(total.reshape(batch, -1, total.shape[-1]), own=False)
            saved = [t.reshape(-1, *t.shape[len(use.leading) :]) for t in use.saved]
            expanded = tuple(t.expand(batch, *t.shape) for t in saved)
            for index, product in use.tap.products(use, gradient, expanded):
                if index not in loose:
                    collected.setdefault(index, []).append(product)

    def _tapped_products(
        self,
        found: Pass,
        batch: int,
        loose: set[int],
        straight: Straight,
    ) -> dict[int, list[Product]]:
        """What the taps saw: simple matrix products go to ``straight``, all else into products of their own."""
        gradients = found.gradients
        starts = [None if g is None else g.untyped_storage().data_ptr() for g in gradients]
        shared = len(set(starts)) < len(starts)
        collected: dict[int, list[Product]] = {}
        for use, place, simple, g, start in zip(
            found.uses, found.places, found.plan.straight, gradients, starts, strict=False
        ):
            if g is None or place is None:
                continue
            indices = use.tap.indices
            if loose and all(i in loose for i in indices.values()):
                continue
            own = self._many is None and not (shared and starts.count(start) > 1) and 0 not in g.stride()
            if simple and self._many is None and not loose:
                straight.take(use.saved[0], g, indices, own)
                continue
            gradient = Gradient(use.tap.gradient_rows(use, g, place, batch), own)
            for index, product in use.tap.products(use, gradient, use.tap.saved_rows(use, place, batch)):
                if index not in loose:
                    collected.setdefault(index, []).append(product)
        return collected


def _group_numbers(names: tuple[str, ...], groups: Sequence[Sequence[str]] | None) -> list[int]:
    """The group of each parameter."""
    if groups is None:
        return [0] * len(names)
    by_name = {name: number for number, group in enumerate(groups) for name in group}
    if set(by_name) != set(names) or sum(map(len, groups)) != len(names):
        raise InvalidArgument(
            "'groups' must name each trainable parameter once, got other names, repeated or missing ones. "
            "Take the names from layout.names."
        )
    return [by_name[name] for name in names]
