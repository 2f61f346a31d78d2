"""Signals of single sequences: from what a model says of every token to one number, higher = member.

All of them read one ``TokenLogProbs``, that is one forward pass.
"""

import zlib
from collections.abc import Sequence

import numpy as np

from privet.arguments import fraction
from privet.attacks.text.token_views import TokenLogProbs
from privet.errors import InvalidArgument
from privet.views import Numbers

__all__ = ["mean_log_probability", "min_k", "min_k_plus_plus", "reference_log_ratio", "zlib_log_ratio"]

_LEAST_DEVIATION = 1e-3  # nats: where the model is certain, ln p is its own mean


def mean_log_probability(found: TokenLogProbs) -> Numbers:
    """The mean of ln p over the tokens: the negative loss (Yeom et al. 2018)."""
    answer: Numbers = found.sums(found.logprobs) / found.lengths
    return answer


def zlib_log_ratio(found: TokenLogProbs, texts: Sequence[str]) -> Numbers:
    """Σ ln p over the tokens for each byte of the compressed text: how likely for so much information.

    *Reference*: Carlini et al. 2021, section 5.1 (zlib). Deviation: the sum over tokens and not the mean,
    because the compressed size is that of the whole text, and texts have several lengths.
    """
    if len(texts) != len(found):
        raise InvalidArgument(
            f"'texts' must be the {len(found)} texts of the sequences, got {len(texts)}. Give both in one "
            f"order."
        )
    sizes = [len(zlib.compress(text.encode("utf-8", errors="surrogatepass"))) for text in texts]
    answer: Numbers = found.sums(found.logprobs) / np.array(sizes, dtype=np.float64)
    return answer


def reference_log_ratio(found: TokenLogProbs, reference: TokenLogProbs) -> Numbers:
    """The mean over the tokens of ln p − ln q, for the p of the target and the q of a reference model.

    *Reference*: Carlini et al. 2021, section 5.1 (a smaller model); Watson et al. 2022 (difficulty
    calibration).
    """
    if not np.array_equal(found.offsets, reference.offsets):
        raise InvalidArgument(
            "'reference' must be asked about the same sequences, got others. Give both models the same "
            "tokens."
        )
    return mean_log_probability(found) - mean_log_probability(reference)


def min_k(found: TokenLogProbs, share: float = 0.2) -> Numbers:
    """The mean of ln p over the ``share`` of tokens with the lowest (Shi et al. 2024, Min-K % Prob)."""
    return _mean_of_lowest(found.logprobs, found, share)


def min_k_plus_plus(found: TokenLogProbs, share: float = 0.2) -> Numbers:
    """Min-K % of z = (ln p − μ)/σ, with the mean and deviation of ln p under the model at each place.

    *Reference*: Zhang et al. 2025, Min-K % ++, equation 3.
    """
    z = (found.logprobs - found.means) / np.maximum(found.deviations, _LEAST_DEVIATION)
    return _mean_of_lowest(z, found, share)


def _mean_of_lowest(values: Numbers, found: TokenLogProbs, share: float) -> Numbers:
    """The mean over the lowest share of each sequence, at least one token."""
    fraction("share", share)
    counts = np.maximum(1, (share * found.lengths).astype(np.int64))
    owners = found.owners
    order = np.lexsort((values, owners))
    place = np.arange(len(values)) - found.offsets[:-1][owners]
    chosen = np.where(place < counts[owners], values[order], 0.0)
    answer: Numbers = found.sums(chosen) / counts
    return answer
