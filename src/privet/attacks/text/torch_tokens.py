"""The token view of a torch module or of a Hugging Face model: one forward pass for all signals.

The module takes tokens (n, t) of type int64 and gives logits (n, t, V), as a tensor or as ``.logits``. It
runs in evaluation mode without gradients, on batches of similar length, padded on the right. A causal model
never looks to the right, so padding changes nothing; ``TorchTokenView`` tests this once, on its own tokens.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, final, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from privet.arguments import whole
from privet.attacks.text.token_views import (
    LEAST_LOG_PROBABILITY,
    TokenLogProbs,
    Tokens,
    TokenView,
    check_sequences,
)
from privet.attacks.torch_outputs import bare_outputs
from privet.attacks.torch_views import evaluating
from privet.errors import InvalidArgument, ProgramFailed
from privet.views import Numbers

__all__ = ["TorchTokenView"]

_BLOCK = 2**18  # logits that are summarised at a time, so that they stay in the cache
_NAN = (
    "'model' must give numbers, got logits that are NaN or infinite. Look for a training run that diverged; "
    "a model in half precision may need float32."
)


@runtime_checkable
class _HasConfig(Protocol):
    """A model of Hugging Face."""

    config: Any


@final
class TorchTokenView(TokenView):
    """A causal language model in torch.

    ``end`` and ``context`` are read from a Hugging Face configuration where they are not given, ``context``
    also from the module. ``pad`` fills
    up shorter sequences of a batch; it is never scored. ``batch_tokens`` is the most tokens of one forward
    pass, padding included. Logits in half precision are summarised in float32.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        pad: int = 0,
        end: int | None = None,
        context: int | None = None,
        batch_tokens: int = 4096,
    ) -> None:
        self.model, self.batch_tokens = model, whole("batch_tokens", batch_tokens)
        self.pad = whole("pad", pad, least=0)
        config = model.config if isinstance(model, _HasConfig) else None
        if getattr(config, "is_encoder_decoder", False) is True:
            raise InvalidArgument(
                f"'model' must be causal, got a {type(model).__name__}, whose decoder needs a second text. "
                f"Give a model such as GPT2LMHeadModel, or a module that fixes the encoder's text."
            )
        self._end = _first_number(config, "eos_token_id") if end is None else end
        own = _first_number(model, "context")  # as the small transformer here says it
        found = _first_number(config, "max_position_embeddings") if own is None else own
        self._context = found if context is None else whole("context", context)
        first = next(iter(model.parameters()), torch.zeros(()))
        self._device = first.device
        self._dtype = first.dtype if first.is_floating_point() else torch.float32
        with evaluating(model), torch.inference_mode():
            self._vocabulary = self._forward(np.full((1, 1), self.pad)).shape[-1]
            self._check_causal()
        if self._end is not None and not 0 <= self._end < self._vocabulary:
            raise InvalidArgument(
                f"'end' must be one of the model's tokens, 0 to {self._vocabulary - 1}, got {self._end}. "
                f"Take the tokenizer that the model was trained with."
            )

    @property
    def vocabulary(self) -> int:
        return self._vocabulary

    @property
    def end(self) -> int | None:
        return self._end

    @property
    def context(self) -> int | None:
        return self._context

    def logprobs(self, sequences: Sequence[Tokens], *, top: int = 0) -> TokenLogProbs:
        arrays = check_sequences(sequences, self)
        top = whole("top", top, least=0, most=self._vocabulary)
        offsets = np.concatenate([[0], np.cumsum([len(array) - 1 for array in arrays])]).astype(np.int64)
        numbers, ranks = np.empty((3, offsets[-1])), np.empty(offsets[-1], dtype=np.int64)
        tops = np.empty((offsets[-1], top)), np.empty((offsets[-1], top), dtype=np.int64)
        with evaluating(self.model), torch.inference_mode():
            # The last token is only predicted, never read.
            for batch in self._batches([len(array) - 1 for array in arrays]):
                lengths = [len(array) - 1 for array in (arrays[one] for one in batch)]
                inputs = self._pad([arrays[one][:-1] for one in batch])
                targets = self._pad([arrays[one][1:] for one in batch])
                logits = self._forward(inputs)
                own, rank, best = _summarise(logits.flatten(0, 1), torch.from_numpy(targets.reshape(-1)), top)
                # Rows of the padded batch that are tokens, and where they go.
                real = np.flatnonzero(np.arange(inputs.shape[1]) < np.array(lengths)[:, None])
                places = np.concatenate([np.arange(offsets[one], offsets[one + 1]) for one in batch])
                numbers[:, places], ranks[places] = own[:, real], rank[real]
                if best is not None:
                    tops[0][places], tops[1][places] = best[0][real], best[1][real]
        if not np.isfinite(numbers).all():
            raise InvalidArgument(_NAN)
        return TokenLogProbs(
            np.concatenate([array[1:] for array in arrays]),
            numbers[0],
            ranks,
            numbers[1],
            numbers[2],
            offsets,
            tops[1] if top else None,
            tops[0] if top else None,
        )

    def next_logits(self, prefixes: Sequence[Tokens]) -> Numbers:
        arrays = check_sequences(prefixes, self, least=1)
        answer = np.empty((len(arrays), self._vocabulary))
        with evaluating(self.model), torch.inference_mode():
            for batch in self._batches([len(array) for array in arrays]):
                inputs = self._pad([arrays[one] for one in batch])
                last = torch.tensor([len(arrays[one]) - 1 for one in batch])
                logits = self._forward(inputs)[torch.arange(len(batch)), last]
                answer[batch] = torch.log_softmax(_to_float(logits), dim=1).numpy()
        if np.isnan(answer).any():
            raise InvalidArgument(_NAN)
        return np.maximum(answer, LEAST_LOG_PROBABILITY)

    def _batches(self, lengths: list[int]) -> Iterator[list[int]]:
        """Sequences of similar length together, at most ``batch_tokens`` tokens with padding."""
        batch: list[int] = []
        for one in np.argsort(lengths, kind="stable").tolist():
            if batch and (len(batch) + 1) * lengths[one] > self.batch_tokens:
                yield batch
                batch = []
            batch.append(one)
        yield batch

    def _pad(self, arrays: list[Tokens]) -> Tokens:
        rows = np.full((len(arrays), max(map(len, arrays))), self.pad, dtype=np.int64)
        for row, array in zip(rows, arrays, strict=True):
            row[: len(array)] = array
        return rows

    def _forward(self, rows: Tokens) -> Tensor:
        """The logits of some rows of tokens, rows × tokens × vocabulary, on the processor."""
        tokens = torch.from_numpy(rows).to(self._device)
        logits = bare_outputs(self._call(tokens))
        if isinstance(logits, tuple):  # a recurrent model that also gives its state
            logits = logits[0]
        if not isinstance(logits, Tensor) or logits.ndim != 3 or logits.shape[:2] != rows.shape:
            got = f"shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else type(logits).__name__
            raise InvalidArgument(
                f"'model' must give logits of shape {(*rows.shape, 'V')} for tokens of shape {rows.shape}, "
                f"got {got}. Wrap it in a module that gives the logits of the next token at every place."
            )
        return logits.cpu()

    def _call(self, tokens: Tensor) -> object:
        try:
            return self.model(tokens)
        except Exception as failure:  # of any kind: it is not our code, and its message may show tokens
            if tokens.shape[1] == 1:
                raise ProgramFailed(
                    f"The model must take tokens alone, and with one token it failed with "
                    f"{type(failure).__name__}, which stands above. Give a causal language model, or wrap it "
                    f"in a module whose forward takes tokens (n, t) and gives logits (n, t, V)."
                ) from failure
            raise ProgramFailed(
                f"The model must take {tokens.shape[1]} tokens in a row, and it failed with "
                f"{type(failure).__name__}, which stands above. Give 'context' to its view, or cut texts: "
                f"longest=… of audit_text, or cut_sequences."
            ) from failure

    def _check_causal(self) -> None:
        """Refuse a model that reads the token that it predicts, or other rows of the batch."""
        if self._vocabulary < 2 or (self._context is not None and self._context < 3):
            return
        rows = (np.arange(6, dtype=np.int64).reshape(2, 3)) % self._vocabulary
        other = rows.copy()
        other[0, 2] = (other[0, 2] + 1) % self._vocabulary
        before, after = self._forward(rows).float(), self._forward(other).float()
        change = (before - after).abs()
        change[0, 2] = 0.0
        rounding = 32 * torch.finfo(self._dtype).eps * float(before.abs().nan_to_num(0.0).max())
        if float(change.nan_to_num(0.0).max()) > rounding:
            raise InvalidArgument(
                "'model' must be causal, got one whose logits change when a later token or another row "
                "changes. Give a model that predicts the next token, with rows first (batch_first=True)."
            )


def _summarise(
    logits: Tensor, targets: Tensor, top: int
) -> tuple[Numbers, Tokens, tuple[Numbers, Tokens] | None]:
    """ln p of the target with its mean and deviation (3 × rows), its rank, and the top tokens."""
    rows, width = logits.shape
    own = np.empty((3, rows))
    ranks = np.empty(rows, dtype=np.int64)
    best = (np.empty((rows, top)), np.empty((rows, top), dtype=np.int64)) if top else None
    step = max(1, _BLOCK // width)
    for start in range(0, rows, step):
        part = slice(start, start + step)
        block, target = _to_float(logits[part]), targets[part, None]
        of_target = block.gather(1, target)
        values, sums = _moments(block, of_target)
        if not torch.isfinite(values).all():  # a token that is masked out: ln p = −∞, and 0 · ∞ is 0
            block = torch.maximum(block, block.amax(dim=1, keepdim=True) + LEAST_LOG_PROBABILITY)
            of_target = block.gather(1, target)
            values, sums = _moments(block, of_target)
        ranks[part] = (block - of_target).ge_(0.0).sum(dim=1).numpy()
        own[:, part] = values.numpy()
        if best is not None:
            highest, places = block.topk(top, dim=1)
            best[0][part], best[1][part] = (highest - sums).numpy(), places.numpy()
    return own, ranks, best


def _moments(block: Tensor, of_target: Tensor) -> tuple[Tensor, Tensor]:
    """ln p of the targets, and mean and deviation of ln p under p; and ln Σ exp of each row.

    ln Σ exp x = max x − ln max p, exact where p underflows elsewhere, and max p is at least 1/V. The
    deviation of ln p is that of x about its mean, so that a flat distribution keeps its digits. The order of
    operations is the one that touches each logit least often.
    """
    p = torch.softmax(block, dim=1)
    sums = block.amax(dim=1, keepdim=True) - p.amax(dim=1, keepdim=True).log()
    mean = (p * block).sum(dim=1, keepdim=True)
    variance = (block - mean).square_().mul_(p).sum(dim=1, keepdim=True)
    return torch.cat([of_target - sums, mean - sums, variance.sqrt()], dim=1).T, sums


def _to_float(logits: Tensor) -> Tensor:
    return logits if logits.dtype in (torch.float32, torch.float64) else logits.float()


def _first_number(config: object, name: str) -> int | None:
    """A whole number of a configuration; the first one where there are several."""
    value = getattr(config, name, None)
    if isinstance(value, list | tuple) and value:
        value = value[0]
    return value if isinstance(value, int) and not isinstance(value, bool) else None
