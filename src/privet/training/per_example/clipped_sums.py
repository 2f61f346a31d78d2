"""Clipped sums of per-example gradients, from one forward and one backward pass."""

import warnings
from collections.abc import Sequence
from typing import Protocol, final

import torch
from torch import Tensor, nn

from privet.callers import level_of_caller
from privet.errors import InvalidArgument
from privet.torch_internals import DropoutBase, get_version, run_backward
from privet.training.double_precision import zeros_float64
from privet.training.loops import count_late
from privet.training.per_example.explanation import Explanation, Handling, explain_parameters
from privet.training.per_example.fallback import BruteForce, count_at_once
from privet.training.per_example.forms.embedding_form import combine_forms
from privet.training.per_example.forms.gradient_form import DenseForm, GradientForm, OutputGradient
from privet.training.per_example.forms.linear_form import share_inputs
from privet.training.per_example.forms.mlp import MLP
from privet.training.per_example.forms.single_token_linear import SingleTokenLinear
from privet.training.per_example.graph.couplings import CouplingTests
from privet.training.per_example.graph.proofs import rows_are_separate
from privet.training.per_example.graph.shared_parts import build_followed_forms
from privet.training.per_example.layout import Layout, number_groups
from privet.training.per_example.losses import LossFunction, find_ignored_label, is_row_wise
from privet.training.per_example.mixed_precision import autocast_dtype, full_precision
from privet.training.per_example.model_snapshot import ModelSnapshot
from privet.training.per_example.passes import NO_CHECKS, LotChecks, PassResult, PassRunner
from privet.training.per_example.refusals import (
    CrossExample,
    require_finite,
    require_losses,
    require_rows,
    require_uncoupled_modules,
)
from privet.training.per_example.taps.register import build_taps
from privet.training.per_example.taps.tape import BatchAxis, Tape

__all__ = ["ClippedSums", "Clipping"]


class Clipping(Protocol):
    """A rule for scaling down the gradients of examples."""

    @property
    def ceiling(self) -> float | None:
        """C, if the factors are min(1, C/‖g‖); None for any other rule."""
        ...

    def factors(self, squared_norms: Tensor) -> Tensor:
        """The clip factors for squared norms [examples] or [examples, groups], in the same shape."""
        ...


@final
class ClippedSums:
    """Adds up the clipped per-example gradients of a model in one flat buffer.

    Guarantee: with ``factors`` ≤ C/‖g‖, adding or removing one example changes the sum by at most C, up to
    rounding: norms are exact to about 1e-6 (float32 products, float64 sums), and so is the bound.

    Under autocast the forward and the backward pass run in its precision. Their results are widened, and
    norms and sums are float32 (``mixed_precision`` has the proof that the bound holds as without it).

    The model runs as it is, in its current mode (a warning says if dropout is off). Dropout draws its masks
    from torch's generator, as in plain training. Buffers that the model updates in its forward pass are not
    protected.

    Example:
        >>> from privet.training.per_example import per_example_loss
        >>> class Flat:
        ...     ceiling = None
        ...     def factors(self, squared_norms):
        ...         return (1.0 / squared_norms.sqrt()).clamp(max=1.0)
        >>> sums = ClippedSums(nn.Linear(3, 2), per_example_loss(nn.CrossEntropyLoss()), Flat())
        >>> total = sums.layout.zeros()
        >>> sums.add((torch.ones(4, 3),), torch.tensor([0, 1, 1, 0]), total).shape
        torch.Size([4])
    """

    def __init__(
        self,
        model: nn.Module,
        loss: LossFunction,
        clipping: Clipping,
        *,
        groups: Sequence[Sequence[str]] | None = None,
        original_loss: object = None,
    ) -> None:
        """``original_loss`` is the torch loss that ``loss`` computes for each example, if there is one."""
        self._ignored_label = find_ignored_label(loss if original_loss is None else original_loss)
        self._row_wise = is_row_wise(loss if original_loss is None else original_loss)
        self._model = model
        self._loss = loss
        self.clipping = clipping
        self.layout = Layout.of(model)
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._groups = number_groups(self.layout.names, groups)
        self._group_count = None if groups is None else len(groups)
        self._warned = not any(isinstance(m, DropoutBase) for m in model.modules())
        self._brute_forced: frozenset[int] = frozenset()
        self._written_out = 0  # numbers of an example's gradient that brute force wrote out
        self._handled: dict[int, Handling] = {}
        self._analyse_model()
        self._out: Tensor | None = None
        self._views: list[Tensor] = []
        self.numbers_per_example: int | None = None
        """The numbers that the last lot held in memory for each example; None before the first lot."""

    def _analyse_model(self) -> None:
        """Build everything that depends on the model's modules and parameters."""
        model, parameters = self._model, self._parameters
        self._late_loops = count_late()  # with further loops other plans are made
        self._frozen_norms = require_uncoupled_modules(model)
        self._snapshot = ModelSnapshot(model)
        self._tape = Tape()
        indices = {id(p): i for i, p in enumerate(parameters)}
        taps = build_taps(model, indices, self._tape)
        self._mlp = None if self._group_count is not None else MLP.from_model(model, indices)
        self._coupling_tests = CouplingTests(model, self._loss, parameters)
        self._passes = PassRunner(model, self._loss, parameters, taps, self._tape, self._coupling_tests)
        self._brute_force = BruteForce(model, self._loss)
        self._untapped: set[int] = set()  # parameters that are not, or not only, used in tapped layers

    def _reanalyse(self) -> None:
        """Analyse a changed model. Its trainable parameters must be those of the layout."""
        named = [(name, p) for name, p in self._model.named_parameters() if p.requires_grad]
        is_same = len(named) == len(self._parameters) and all(
            name == known and p is own
            for (name, p), known, own in zip(named, self.layout.names, self._parameters, strict=True)
        )
        if not is_same:
            raise InvalidArgument(
                "'model' must keep the trainable parameters that it had at first, got others: one was "
                "replaced, added, removed, renamed, frozen or thawed. Make a new private gradient after "
                "such a change, with a new optimiser."
            )
        self._analyse_model()

    @property
    def brute_forced(self) -> frozenset[int]:
        """The parameters that brute force handled in the last lot, by their index in the layout."""
        return self._brute_forced

    def explain(self) -> Explanation:
        """How each parameter was handled in the last lot, what is written out, and what would be faster."""
        if self.numbers_per_example is None:
            raise InvalidArgument(
                "How gradients are computed is known after the first lot, and there was none. Take one step "
                "first."
            )
        one_by_one = self._brute_force.needs_loop
        return explain_parameters(
            self._model, self.layout.names, self._handled, self._brute_forced, one_by_one
        )

    def add(
        self, inputs: tuple[Tensor, ...], targets: Tensor, out: Tensor, *, overwrite: bool = False
    ) -> Tensor:
        """out += Σ_b c_b·g_b. Returns the squared norms ‖g_b‖² before clipping, in float64.

        With ``groups`` the squared norms are [examples, groups]. If a gradient is not finite, this raises an
        error and leaves ``out`` unchanged. With ``overwrite`` the sum replaces the contents of ``out``: large
        matrices are then neither zeroed nor read first.
        """
        batch = require_rows(inputs, targets)
        if self._late_loops != count_late() or not self._snapshot.unchanged():
            self._reanalyse()
        if out is not self._out:
            self._views = self.layout.views(out)
            self._out = out
        if any(m.training for m in self._frozen_norms):
            raise CrossExample(
                "'model' has batch normalisation in training mode, which mixes the examples of a batch. "
                "Call .eval() on it, or replace it by nn.GroupNorm."
            )
        if batch > (most := count_at_once(self._written_out)):
            return self._add_pieces(inputs, targets, out, most, overwrite)
        shape = (batch,) if self._group_count is None else (batch, self._group_count)
        norms = zeros_float64(shape, targets.device)
        if not batch:
            if overwrite:
                out.zero_()
            return norms
        if not (self._warned or self._model.training):
            self._warned = True
            warnings.warn(
                "The model is in evaluation mode, so dropout is off. Call model.train() before training.",
                stacklevel=level_of_caller(),
            )
        precision = autocast_dtype(targets.device)
        key = (tuple([x.shape[1:] for x in inputs]), targets.shape[1:], self._model.training, precision)
        if self._mlp is not None and self._row_wise and self._passes.has_checked(key):
            checks = NO_CHECKS  # an MLP with such a loss keeps examples apart by construction
        else:
            checks = self._passes.choose_checks(key, batch)
        if (
            self._mlp is not None
            and not checks.rows
            and self._passes.has_checked(key)
            and self._mlp.accepts(inputs)
        ):
            if self._add_mlp(self._mlp, inputs[0], targets, norms, overwrite):
                return norms
            self._mlp = None
            norms.zero_()
        self._tape.scratch.start_pass()
        with torch.enable_grad():
            result = self._run_passes(key, inputs, targets, checks)
        exact = full_precision(targets.device)
        with torch.enable_grad(), exact:
            built = self._build_forms(result, inputs, targets)
        if built is None:
            return self._add_pieces(inputs, targets, out, count_at_once(self._written_out), overwrite)
        single_token, forms = built
        if checks.rows:  # in lots 1, 2, 4, …
            self._note_handling(single_token, forms)
        with torch.no_grad(), exact:
            self._add_squared_norms(single_token, forms, norms)
        if checks.coupling and len(self._brute_forced) < len(self._parameters):
            self._coupling_tests.require_same_alone(inputs, targets, norms)
        with torch.no_grad(), exact:
            self._write_sums(single_token, forms, norms, overwrite)
        return norms

    def _add_pieces(
        self, inputs: tuple[Tensor, ...], targets: Tensor, out: Tensor, size: int, overwrite: bool
    ) -> Tensor:
        """``add`` for a few examples at a time, because their gradients are written out."""
        total, norms = torch.zeros_like(out), []  # a later piece may be refused, and then nothing is added
        for start in range(0, len(targets), size):
            piece = slice(start, start + size)
            norms.append(self.add(tuple(x[piece] for x in inputs), targets[piece], total))
        if overwrite:
            out.copy_(total)
        else:
            out += total
        return torch.cat(norms)

    def _add_mlp(self, mlp: MLP, x: Tensor, targets: Tensor, norms: Tensor, overwrite: bool) -> bool:
        """The whole of ``add`` for an MLP. Returns False, with nothing added, if the loss needs the taps."""
        with torch.no_grad():
            inputs = mlp.forward(x)
            gradient = (
                None
                if self._ignored_label is None
                else mlp.cross_entropy_gradient(inputs[-1], targets, self._ignored_label, norms)
            )
            outputs = None if gradient is not None else mlp.outputs(inputs[-1])
        if outputs is not None:
            norms.zero_()
            gradient = self._loss_gradient(outputs, targets)
            if gradient is None:
                return False
            outputs = outputs.detach()
        assert gradient is not None
        with torch.no_grad():
            gradients = mlp.backward(outputs, inputs, gradient, norms)
            ceiling = self.clipping.ceiling
            factors = None if ceiling is None else mlp.clip_factors(norms, ceiling)
            if factors is None:
                require_finite(norms)
                factors = self.clipping.factors(norms).to(torch.float32)
            mlp.write_sums(inputs, gradients, factors, self._views, overwrite)
        self.numbers_per_example = mlp.width
        self._brute_forced = frozenset()
        return True

    def _loss_gradient(self, outputs: Tensor, targets: Tensor) -> Tensor | None:
        """The gradient of the losses at the outputs; None if the loss must see the whole graph."""
        version = get_version(outputs)
        with torch.enable_grad():
            try:
                losses = self._loss(outputs.requires_grad_(), targets)
            except RuntimeError:
                return None  # it may write to the outputs
            require_losses(losses, targets.shape[0])
            gradient, *others = run_backward(
                losses, torch.ones_like(losses), [outputs, *self._parameters], keep_graph=not self._row_wise
            )
            if (
                gradient is not None
                and not self._row_wise
                and not rows_are_separate(losses, outputs, gradient)
            ):
                return None
        if gradient is None or get_version(outputs) != version or any(g is not None for g in others):
            return None
        is_plain = gradient.is_contiguous() and 0 not in gradient.stride()
        return gradient if is_plain else gradient.clone(memory_format=torch.contiguous_format)

    def _add_squared_norms(
        self, single_token: SingleTokenLinear, forms: dict[int, GradientForm], norms: Tensor
    ) -> None:
        """norms += the squared norms of all parameters. They must be finite."""
        if single_token.parameter_indices:
            single_token.add_squared_norms(norms)
        columns = [norms] if self._group_count is None else list(norms.unbind(1))
        share_inputs(forms.values())
        for index, form in forms.items():
            columns[self._groups[index]] += form.squared_norms()
        require_finite(norms)

    def _write_sums(
        self, single_token: SingleTokenLinear, forms: dict[int, GradientForm], norms: Tensor, overwrite: bool
    ) -> None:
        """Compute the clip factors, and write the clipped sums to the buffer."""
        single_indices = single_token.parameter_indices
        factors = self.clipping.factors(norms).to(self._views[0].device, self.layout.dtype)
        if single_indices:
            single_token.write_sums(factors, self._views, overwrite)
        by_group = [factors] if self._group_count is None else [c.contiguous() for c in factors.unbind(1)]
        for index, form in forms.items():
            write = form.set_sum if overwrite else form.add_sum
            write(by_group[self._groups[index]], self._views[index])
        if overwrite and len(single_indices) + len(forms) < len(self._views):
            for index in set(range(len(self._views))).difference(single_indices, forms):
                self._views[index].zero_()  # no gradient in this lot

    def _run_passes(
        self, key: object, inputs: tuple[Tensor, ...], targets: Tensor, checks: LotChecks
    ) -> PassResult:
        """The passes over a lot; their results in the precision of the parameters."""
        result = self._passes.run(key, inputs, targets, self._untapped, checks)
        if autocast_dtype(targets.device) is not None:
            # The cache of autocast has casts of parameters, which the optimiser is about to change.
            torch.clear_autocast_cache()
            result = result.widen(self.layout.dtype)
        elif any(g is not None and g.dtype is not self.layout.dtype for g in result.gradients):
            result = result.widen(self.layout.dtype)  # a layer computes in another precision, as Gemma's norm
        return result

    def _build_forms(
        self, result: PassResult, inputs: tuple[Tensor, ...], targets: Tensor
    ) -> tuple[SingleTokenLinear, dict[int, GradientForm]] | None:
        """The gradients of every parameter, each in the form that its layers allow.

        None if brute force would write out too many of them at once.
        """
        batch = targets.shape[0]
        elsewhere = set(result.used_elsewhere)
        # A parameter that the plan follows was lost in this lot only: its graph was another one.
        if result.plan.is_learnt:
            self._untapped |= elsewhere.difference(
                p.number for p in result.plan.graph_parameters if not p.is_call
            )
        brute_forced = self._untapped | elsewhere | result.unproved
        followed = {f.parameter.number for f in result.followed if f.parameter.is_call}
        for i, (call, axis) in enumerate(zip(result.calls, result.axes, strict=True)):
            if axis is None and result.gradients[i] is not None and i not in followed:
                brute_forced.update(call.tap.indices.values())
        self._brute_forced = frozenset(brute_forced)
        self._written_out = sum(self._parameters[i].numel() for i in brute_forced)
        if batch > count_at_once(self._written_out):
            return None
        self.numbers_per_example = self._count_numbers(result, brute_forced, batch) // batch
        single_token = SingleTokenLinear()
        with torch.no_grad():
            collected = self._build_tapped_forms(result, batch, brute_forced, single_token)
            self._add_followed_forms(result, batch, brute_forced, collected)
            forms = {
                index: combine_forms(parts, batch, self._parameters[index].numel())
                for index, parts in collected.items()
            }
        if brute_forced:
            order = sorted(brute_forced)
            rows = self._brute_force.gradients([self.layout.names[i] for i in order], inputs, targets)
            forms.update({i: DenseForm(r) for i, r in zip(order, rows, strict=True)})
        return single_token, forms

    def _note_handling(self, single_token: SingleTokenLinear, forms: dict[int, GradientForm]) -> None:
        """Remember how each parameter was handled, for ``explain``."""
        method = Handling("matrix or bias: norms from inputs and output gradients, one row per example")
        self._handled = dict.fromkeys(single_token.parameter_indices, method)
        for index, form in forms.items():
            written = form.rows[0].numel() if isinstance(form, DenseForm) else 0
            self._handled[index] = Handling(form.description, written)

    def _count_numbers(self, result: PassResult, brute_forced: set[int], batch: int) -> int:
        """The numbers that a pass holds: inputs, output gradients, and what brute force writes out."""
        saved = sum(t.numel() for call in result.calls for t in call.saved)
        gradients = sum(gradient.numel() for gradient in result.gradients if gradient is not None)
        return saved + gradients + batch * sum(self._parameters[i].numel() for i in brute_forced)

    def _add_followed_forms(
        self,
        result: PassResult,
        batch: int,
        brute_forced: set[int],
        collected: dict[int, list[GradientForm]],
    ) -> None:
        """Add the gradients of parameters and shared outputs that were followed through the graph."""
        calls, start = result.calls, len(result.calls)
        for one in result.followed:
            parameter, boundaries = one.parameter, one.boundaries
            gradients = result.gradients[start : start + len(boundaries)]
            start += len(boundaries)
            pairs = [(b, g) for b, g in zip(boundaries, gradients, strict=True) if g is not None]
            if not pairs:
                continue
            if not parameter.is_call:
                if parameter.number not in brute_forced:
                    collected.setdefault(parameter.number, []).extend(
                        build_followed_forms(
                            one.root, pairs, parameter.any_step, self._parameters[parameter.number], batch
                        )
                    )
                continue
            call = calls[parameter.number]
            rows = [
                form.to_dense()
                for form in build_followed_forms(one.root, pairs, parameter.any_step, call.edge, batch)
            ]
            total = sum(rows[1:], start=rows[0])
            gradient = OutputGradient(total.reshape(batch, -1, total.shape[-1]), own=False)
            saved = [t.reshape(-1, *t.shape[len(call.leading) :]) for t in call.saved]
            expanded = tuple(t.expand(batch, *t.shape) for t in saved)
            for index, form in call.tap.build_forms(call, gradient, expanded):
                if index not in brute_forced:
                    collected.setdefault(index, []).append(form)

    def _build_tapped_forms(
        self, result: PassResult, batch: int, brute_forced: set[int], single_token: SingleTokenLinear
    ) -> dict[int, list[GradientForm]]:
        """The forms of tapped calls. Simple linear calls go to ``single_token`` instead."""
        gradients = result.gradients
        addresses = [None if g is None else g.untyped_storage().data_ptr() for g in gradients]
        any_shared = len(set(addresses)) < len(addresses)
        collected: dict[int, list[GradientForm]] = {}
        for call, axis, is_single_token, g, address in zip(
            result.calls, result.axes, result.plan.is_single_token, gradients, addresses, strict=False
        ):
            if g is None or axis is None:
                continue
            indices = call.tap.indices
            if brute_forced and all(i in brute_forced for i in indices.values()):
                continue
            is_shared = any_shared and addresses.count(address) > 1
            own = self._group_count is None and not is_shared and 0 not in g.stride()
            in_order = isinstance(axis, BatchAxis)  # one row per example, in the order of the examples
            if is_single_token and in_order and self._group_count is None and not brute_forced:
                single_token.add_layer(call.saved[0], g, indices, own)
                continue
            gradient = OutputGradient(call.tap.gradient_rows(call, g, axis, batch), own)
            for index, form in call.tap.build_forms(call, gradient, call.tap.saved_rows(call, axis, batch)):
                if index not in brute_forced:
                    collected.setdefault(index, []).append(form)
        return collected
