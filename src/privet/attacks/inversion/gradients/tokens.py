"""Sentences from the gradient of a transformer: which tokens lie in the span of a layer's gradient?

A linear map of the attention sees an input h for every token of the batch, and its gradient is Σ δ hᵀ: all
its rows lie in the span of those inputs. As long as there are fewer tokens than dimensions the span is a
proper subspace, and a token that was not there has an input outside of it. Before the first attention layer,
h depends on the token and its position alone. So every token of the vocabulary is tried at every position,
without optimisation and without guessing.

The gradient of the embedding narrows the vocabulary first: only tokens that occur have a row that is not
zero.

With several sentences the first layer says which tokens stand at each position, not which belong together. In
a causal model the input of the second layer at a position depends on all tokens up to it. So sentences are
built from the left, and a beginning is kept if the second layer's span holds it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor, nn

from privet.arguments import open_fraction, whole
from privet.attacks.inversion.gradients.attack import GradientInversion, Reconstructions, check_messages
from privet.attacks.inversion.gradients.labels import recover_labels
from privet.attacks.inversion.gradients.public_model import PublicModel
from privet.errors import InvalidArgument
from privet.shared_gradients import SharedGradient
from privet.views import Adversary, Numbers

__all__ = ["SpanCheck"]

_ROWS = 512  # sequences that are passed through the model at a time


@final
@dataclass(frozen=True, eq=False)
class SpanCheck(GradientInversion):
    """Tries every token at every position against the span of the first attention layer's gradient.

    *Adversary*: sees one shared gradient; knows the model and the number and length of the sentences; wants
    the sentences.

    ``parameter`` names a matrix that is applied to the input of the first attention layer, such as
    "layers.0.self_attn.in_proj_weight"; ``second`` one of the second layer, needed for several sentences, in
    a causal model. ``tolerance`` is the largest share of an input's length that may lie outside of the span.
    Sentences that were not found are NaN. The confidence is −log₁₀ of the worst token's distance from the
    span.

    *Reference*: Petrov, Dimitrov, Baader, Müller & Vechev 2024 (DAGER), sections 4 and 5. Deviations: the
    embedding's gradient narrows the vocabulary; sentences have one length, padding included; no search over
    encoders without causality.
    """

    parameter: str
    second: str | None = None
    tolerance: float = 0.02
    beam: int = 64

    name = "span check"
    adversary = Adversary(
        sees="the gradient that a participant shared",
        knows="the model, and the number and length of the sentences",
        wants="the sentences behind the gradient",
    )

    def __post_init__(self) -> None:
        open_fraction("tolerance", self.tolerance)
        whole("beam", self.beam)

    def recover(self, model: PublicModel, shared: Sequence[SharedGradient]) -> Reconstructions:
        check_messages(shared)
        model.read(shared)
        examples = shared[0].examples
        if examples > 1 and self.second is None:
            raise InvalidArgument(
                f"'second' must name a matrix of the second attention layer for messages of {examples} "
                f"sentences, got None. Give it, for a causal model."
            )
        found = [self._read_message(model, message) for message in shared]
        return Reconstructions(
            np.stack([tokens for tokens, _ in found]),
            np.concatenate(
                [
                    recover_labels(model, [message], public=_found_rows(tokens))
                    for message, (tokens, _) in zip(shared, found, strict=True)
                ]
            ),
            np.stack([sure for _, sure in found]),
        )

    def _read_message(self, model: PublicModel, message: SharedGradient) -> tuple[Numbers, Numbers]:
        length = model.shape[0]
        basis = _span(model, message, self.parameter)
        pool = _tokens_in_use(model, message)
        repeated = np.repeat(pool[:, None], length, axis=1)
        gaps = _distances(_layer_inputs(model, self.parameter, repeated), basis)  # tokens × positions
        answer = np.full((message.examples, length), np.nan)
        sure = np.zeros(message.examples)
        if message.examples == 1:
            best = gaps.argmin(axis=0)
            worst = gaps[best, np.arange(length)].max()
            answer[0], sure[0] = pool[best], -np.log10(max(worst, 1e-16))
            return answer, sure
        choices = [pool[gaps[:, place] <= self.tolerance] for place in range(length)]
        sentences, worst_gaps = self._build(model, message, choices)
        for place in np.argsort(worst_gaps, kind="stable")[: message.examples]:
            row = int(np.flatnonzero(np.isnan(answer[:, 0]))[0])
            answer[row], sure[row] = sentences[place], -np.log10(max(worst_gaps[place], 1e-16))
        return answer, sure

    def _build(
        self, model: PublicModel, message: SharedGradient, choices: list[np.ndarray]
    ) -> tuple[np.ndarray, Numbers]:
        """Sentences whose every beginning lies in the span of the second layer, and their worst distances."""
        assert self.second is not None
        basis, length = _span(model, message, self.second), model.shape[0]
        sentences, worst = np.zeros((1, length), dtype=np.int64), np.zeros(1)
        for place, tokens in enumerate(choices):
            longer = np.repeat(sentences, len(tokens), axis=0)
            longer[:, place] = np.tile(tokens, len(sentences))
            before = np.repeat(worst, len(tokens))
            if not len(longer):
                return longer, before
            gaps = _distances(_layer_inputs(model, self.second, longer)[:, [place]], basis)[:, 0]
            kept = np.flatnonzero(gaps <= self.tolerance)
            kept = kept[np.argsort(gaps[kept], kind="stable")][: self.beam]
            sentences, worst = longer[kept], np.maximum(before[kept], gaps[kept])
        return sentences, worst


def _span(model: PublicModel, message: SharedGradient, parameter: str) -> Numbers:
    """An orthonormal basis of the rows of a matrix's gradient, dimensions × rank."""
    if parameter not in message.gradients or message.gradients[parameter].ndim != 2:
        raise InvalidArgument(
            f"'parameter' must name a matrix among the shared gradients, got {parameter!r}. Take one of the "
            f"attention layer's, such as in_proj_weight."
        )
    table = message.gradients[parameter]
    _, sizes, rows = np.linalg.svd(table, full_matrices=False)
    tokens = message.examples * model.shape[0]
    rank = min(int((sizes > 1e-6 * max(float(sizes[0]), 1e-300)).sum()), tokens)
    if rank >= table.shape[1]:
        raise InvalidArgument(
            f"'shared' must come from fewer tokens than the layer's width {table.shape[1]}, got a gradient "
            f"of full rank. Its span excludes nothing; take shorter or fewer sentences."
        )
    basis: Numbers = rows[:rank].T
    return basis


def _tokens_in_use(model: PublicModel, message: SharedGradient) -> np.ndarray:
    """The tokens whose embedding has a gradient; all of them where the embedding is not shared."""
    for name, part in model.module.named_modules():
        if isinstance(part, nn.Embedding):
            weight = f"{name}.weight"
            if weight in message.gradients:
                used = np.flatnonzero(np.abs(message.gradients[weight]).max(axis=1) > 0)
                if len(used):
                    return used
            return np.arange(part.num_embeddings)
    raise InvalidArgument(
        "'model' must embed tokens, got a module without nn.Embedding. Take DeepLeakage for inputs that are "
        "numbers."
    )


def _layer_inputs(model: PublicModel, parameter: str, tokens: np.ndarray) -> Numbers:
    """What the layer of a parameter sees of each sequence: sequences × positions × dimensions."""
    owner = model.module.get_submodule(parameter.rpartition(".")[0])
    seen: list[Tensor] = []

    def save(_part: nn.Module, arguments: tuple[Tensor, ...], named: dict[str, Tensor]) -> None:
        seen.append((arguments[0] if arguments else named["query"]).detach())

    hook = owner.register_forward_pre_hook(save, with_kwargs=True)
    try:
        with torch.enable_grad():  # without gradients torch's encoder layers skip the attention module
            for start in range(0, len(tokens), _ROWS):
                model.predict(torch.as_tensor(tokens[start : start + _ROWS], device=model.device))
    finally:
        hook.remove()
    inputs: Numbers = torch.cat(seen).double().cpu().numpy()
    if inputs.shape[:2] != tokens.shape:
        raise InvalidArgument(
            f"'parameter' must belong to a layer that sees sequences × positions × dimensions, got inputs "
            f"of shape {inputs.shape[1:]} at {parameter!r}. Use batch_first=True, or name another layer."
        )
    return inputs


def _found_rows(tokens: Numbers) -> np.ndarray | None:
    """The sentences that were found: they are the best public inputs for the counts of labels."""
    rows = tokens[np.isfinite(tokens).all(axis=1)]
    return rows.astype(np.int64) if len(rows) else None


def _distances(inputs: Numbers, basis: Numbers) -> Numbers:
    """The share of each input's length outside of the span."""
    outside = inputs - (inputs @ basis) @ basis.T
    answer: Numbers = np.linalg.norm(outside, axis=-1) / np.maximum(np.linalg.norm(inputs, axis=-1), 1e-300)
    return answer
