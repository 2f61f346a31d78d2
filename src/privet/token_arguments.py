"""Checks of the tokens that a language model is called with."""

from torch import Tensor, nn

from privet.errors import InvalidArgument

__all__ = ["embed_tokens", "require_tokens"]


def require_tokens(tokens: Tensor, *axes: str, longest: int | None = None) -> None:
    """Refuse what is no tensor of whole numbers with these axes, the last of at most ``longest``.

    It looks at no value, so that a device need not wait for it.
    """
    if not isinstance(tokens, Tensor):
        raise InvalidArgument(
            f"'tokens' must be a tensor of whole numbers, got a {type(tokens).__name__}. Give the numbers "
            f"that a tokenizer made of the texts."
        )
    if tokens.is_floating_point() or tokens.is_complex() or tokens.dim() != len(axes):
        raise InvalidArgument(
            f"'tokens' must be whole numbers, {' × '.join(axes)}, got a {tokens.dtype} of shape "
            f"{tuple(tokens.shape)}. Give {len(axes)} axes of numbers from a tokenizer."
        )
    if longest is not None and tokens.shape[-1] > longest:
        raise InvalidArgument(
            f"'tokens' must be sequences of at most {longest} tokens, which is the model's context, got "
            f"{tokens.shape[-1]}. Cut them by cut_sequences, or make a model with a larger context."
        )


def embed_tokens(embedding: nn.Embedding, tokens: Tensor) -> Tensor:
    """The vectors of the tokens, with a sentence where one is outside of the vocabulary."""
    try:
        vectors: Tensor = embedding(tokens.long())
    except IndexError as error:
        raise InvalidArgument(
            f"'tokens' must be from 0 to {embedding.num_embeddings - 1}, got others. Use "
            f"the tokenizer that the model was made for."
        ) from error
    return vectors
