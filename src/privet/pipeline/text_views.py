"""The target of an audit of text: its view, which is asked only once about a text, and its texts as tokens.

All attacks ask about the same texts, and the preflight does, too. ``RememberedView`` answers from memory what
was asked before, so that one forward pass serves all of them.
"""

from collections.abc import Sequence
from typing import Any, Protocol, final, runtime_checkable

import numpy as np

from privet.attacks.text.encoders import TextEncoder, check_encoder, decode_tokens, encode_texts
from privet.attacks.text.texts import Texts
from privet.attacks.text.token_views import TokenLogProbs, Tokens, TokenView
from privet.errors import InvalidArgument, PrivetError, ProgramFailed
from privet.views import Numbers

__all__ = ["RememberedView", "encode_public", "encode_targets", "find_end", "see_language_model"]


@runtime_checkable
class _NamesEnd(Protocol):
    """A tokenizer that names its end token, as those of Privet do."""

    end: Any


@runtime_checkable
class _NamesEndOfSequence(Protocol):
    """A tokenizer of Hugging Face."""

    eos_token_id: Any


@final
class RememberedView(TokenView):
    """A view that keeps what the model said of every text, and never asks twice.

    ``asked`` is how many sequences reached the model.
    """

    def __init__(self, view: TokenView) -> None:
        self.view = view
        self.asked = 0
        self._said: TokenLogProbs | None = None
        self._places: dict[bytes, int] = {}

    @property
    def vocabulary(self) -> int:
        return self.view.vocabulary

    @property
    def end(self) -> int | None:
        return self.view.end

    @property
    def context(self) -> int | None:
        return self.view.context

    def logprobs(self, sequences: Sequence[Tokens], *, top: int = 0) -> TokenLogProbs:
        keys = [np.ascontiguousarray(one, dtype=np.int64).tobytes() for one in sequences]
        if top == 0 and self._said is not None and all(key in self._places for key in keys):
            return self._said.pick(self._places[key] for key in keys)
        self.asked += len(sequences)
        said = self.view.logprobs(sequences, top=top)
        if self._said is None and top == 0:  # the texts of the audit come first
            self._said = said
            self._places = {key: place for place, key in enumerate(keys)}
        return said

    def next_logits(self, prefixes: Sequence[Tokens]) -> Numbers:
        return self.view.next_logits(prefixes)


def see_language_model(model: object, *, end: int | None, name: str = "model") -> TokenView:
    """The view of a torch module, a model of Hugging Face, or a view itself."""
    if isinstance(model, TokenView):
        return model
    from torch import nn

    from privet.attacks.text.torch_tokens import TorchTokenView

    if not isinstance(model, nn.Module):
        raise InvalidArgument(
            f"'{name}' must be a causal language model, a torch module or a TokenView, got a "
            f"{type(model).__name__}. Give a module that takes tokens (n, t) and gives logits (n, t, V)."
        )
    from privet.training import UserLanguageModel

    module = model.model if isinstance(model, UserLanguageModel) else model
    try:
        return TorchTokenView(module, end=end)
    except PrivetError:
        raise
    except Exception as failed:
        raise ProgramFailed(
            f"'{name}' must take tokens (n, t) of type int64, and failed with {type(failed).__name__}, which "
            f"stands above. Give a causal language model, in float32 where its layers have no half precision."
        ) from failed


def find_end(encoder: object, end: int | None) -> int | None:
    """The end token that was given, or that of the tokenizer; None where there is none."""
    if end is not None:
        return end
    found = None
    if isinstance(encoder, _NamesEnd):
        found = encoder.end
    elif isinstance(encoder, _NamesEndOfSequence):
        found = encoder.eos_token_id
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def encode_targets(view: TokenView, encoder: TextEncoder, texts: Sequence[str], longest: int | None) -> Texts:
    """The texts as tokens of this model; a tokenizer or a length that does not match is refused."""
    if not len(texts) or any(not text.strip() for text in texts):
        raise InvalidArgument(
            "'texts' must hold at least one text and no empty one, got none or an empty one. Leave empty "
            "texts out, with their coins."
        )
    _refuse_broken(texts)
    check_encoder(encoder, view, texts)
    found = Texts.encode(encoder, texts, end=view.end, longest=longest)
    highest = max(int(one.max()) for one in found.sequences)
    if highest >= view.vocabulary:
        raise InvalidArgument(
            f"'encoder' must give the model's tokens, 0 to {view.vocabulary - 1}, got {highest}. Take the "
            f"tokenizer that the model was trained with."
        )
    decode_tokens(encoder, found.sequences[0])  # a report shows passages, so it must be able to
    most = max(len(one) for one in found.sequences)
    if view.context is not None and most > view.context:
        raise InvalidArgument(
            f"'texts' must have at most {view.context} tokens, which is the model's context, got one of "
            f"{most}. Give longest={view.context}: longer texts are cut there."
        )
    return found


def encode_public(
    view: TokenView, encoder: TextEncoder, texts: Sequence[str], longest: int | None
) -> list[Tokens]:
    """Texts that the model was not trained on, without empty ones."""
    kept = [text for text in texts if text.strip()]
    if not kept:
        return []
    _refuse_broken(kept, name="public")
    check_encoder(encoder, view, kept)
    most = longest if view.context is None else min(longest or view.context, view.context)
    return encode_texts(encoder, kept, end=view.end, longest=most)


def _refuse_broken(texts: Sequence[str], *, name: str = "texts") -> None:
    """Refuse halves of surrogate pairs: neither a report nor a tokenizer can take them."""
    try:
        for text in texts:
            text.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(
            f"'{name}' must be text of Unicode, got half of a surrogate pair, which reading with "
            f"errors='surrogateescape' leaves. Read them with errors='replace'."
        ) from None
