"""The tree of all secrets of a format: every secret's log-probability, or the likeliest ones first.

The probability q of a secret is that of the model when it writes the format: at each place p(token) over the
sum of p over the tokens that the format allows there. So the secrets of a format have a total probability of
1, and whether the model expects a digit at all does not change their order.

A secret is a path from the root, and the log-probability of a path is the sum over its edges. Two secrets
that begin alike share the work up to where they part: 10⁶ secrets of six digits have 111,111 inner nodes, and
only those are asked of the model.

Every edge costs −ln q ≥ 0, so a path only becomes less likely as it grows. So best-first search (Dijkstra's)
meets the secrets in the order of their probability, the likeliest first, and need not look at the rest.

Reference: Carlini, Liu, Erlingsson, Kos & Song 2019, section 4.3 (exact ranks) and section 6 (extraction by a
shortest path; several nodes are expanded in one batch, as there). Deviation: q in place of p, which have the
same order where the model expects the format.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np

from privet.arguments import whole
from privet.attacks.text.token_views import Tokens, TokenView
from privet.canary_formats import CanaryFormat
from privet.errors import InvalidArgument
from privet.views import Numbers

__all__ = ["LikeliestSecrets", "find_likeliest", "rank_in_space", "score_secrets", "score_space"]

_BATCH = 4096
# Scores this near count as equal, and so against the attack: the same text in another batch may differ by
# the rounding of float32.
TIE = 1e-5


def score_space(view: TokenView, format: CanaryFormat) -> Numbers:
    """ln q of every secret, in the order of ``format.locate``."""
    check_vocabulary(view, format)
    paths = np.zeros((1, 0), dtype=np.int64)
    scores: Numbers = np.zeros(1)
    for depth, place in enumerate(format.choices):
        scores = (scores[:, None] + _score_edges(view, format, paths, depth)).ravel()
        if depth + 1 < len(format.choices):
            paths = np.concatenate(
                [np.repeat(paths, len(place), axis=0), np.tile(place, len(paths))[:, None]], axis=1
            )
    return scores


def score_secrets(view: TokenView, format: CanaryFormat, secrets: Tokens) -> Numbers:
    """ln q of each of these secrets."""
    check_vocabulary(view, format)
    secrets = format.check(secrets)
    scores: Numbers = np.zeros(len(secrets))
    for depth, place in enumerate(format.choices):
        order = np.argsort(place)
        chosen = order[np.searchsorted(place, secrets[:, depth], sorter=order)]
        edges = _score_edges(view, format, secrets[:, :depth], depth)
        scores = scores + edges[np.arange(len(secrets)), chosen]
    return scores


def rank_in_space(scores: Numbers, own: Numbers) -> Numbers:
    """How many secrets of the space are at least as likely: 1 = the likeliest. Ties count against the attack.

    >>> rank_in_space(np.array([-1.0, -2.0, -2.0, -3.0]), np.array([-1.0, -2.0, -3.0])).tolist()
    [1.0, 3.0, 4.0]
    """
    ordered = np.sort(scores)
    ranks = len(ordered) - np.searchsorted(ordered, np.asarray(own) - TIE, side="left")
    answer: Numbers = np.maximum(ranks, 1).astype(np.float64)
    return answer


@final
@dataclass(frozen=True, eq=False)
class LikeliestSecrets:
    """The likeliest secrets, best first, with their ln q. No other secret has a ln q above ``rest``."""

    secrets: Tokens
    scores: Numbers
    rest: float

    def rank(self, own: Numbers) -> Numbers:
        """The rank of secrets with these scores; NaN where it is beyond what was searched.

        A secret that ties with ``rest`` may tie with others that were not found, so its rank is not known.
        """
        ordered = self.scores[::-1]
        ranks = len(ordered) - np.searchsorted(ordered, np.asarray(own) - TIE, side="left")
        answer: Numbers = np.where(np.asarray(own) - TIE > self.rest, np.maximum(ranks, 1), np.nan)
        return answer


def find_likeliest(
    view: TokenView,
    format: CanaryFormat,
    count: int,
    *,
    nodes: int = 20_000,
    batch: int = 64,
) -> LikeliestSecrets:
    """The ``count`` likeliest secrets of the format, in order, by best-first search.

    At most ``nodes`` inner nodes are asked of the model. Where this does not suffice, as in a large space
    without a preference, fewer secrets come back; those that do are the likeliest, in order.
    """
    check_vocabulary(view, format)
    whole("count", count), whole("nodes", nodes), whole("batch", batch)
    depth = len(format.choices)
    queue: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    found: list[tuple[float, tuple[int, ...]]] = []
    asked = 0
    while queue:
        while queue and len(queue[0][1]) == depth and len(found) < count:
            found.append(heapq.heappop(queue))  # no path in the queue can become likelier than this one
        if not queue or len(found) == count or asked >= nodes:
            break
        opened, leaves = _pop_inner(queue, depth, min(batch, nodes - asked))
        asked += len(opened)
        for leaf in leaves:
            heapq.heappush(queue, leaf)
        for cost, path in _expand(view, format, opened):
            heapq.heappush(queue, (cost, path))
    rest = -queue[0][0] if queue else -np.inf
    secrets = np.array([path for _, path in found], dtype=np.int64).reshape(len(found), depth)
    return LikeliestSecrets(secrets, np.array([-cost for cost, _ in found], dtype=np.float64), rest)


def check_vocabulary(view: TokenView, format: CanaryFormat) -> None:
    """Refuse a format with tokens that the model does not have, or longer than the model's context."""
    largest = max(int(part.max()) for part in (format.prefix, format.suffix, *format.choices) if len(part))
    if largest >= view.vocabulary:
        raise InvalidArgument(
            f"'format' must hold tokens below the model's vocabulary of {view.vocabulary}, got {largest}. "
            f"Encode it with the tokenizer that the model was trained with."
        )
    length = len(format.prefix) + len(format.choices) - 1
    if view.context is not None and length > view.context:
        raise InvalidArgument(
            f"'format' must fit into the model's context of {view.context} tokens, got {length}. Shorten the "
            f"prefix or the secret."
        )


def _score_edges(
    view: TokenView,
    format: CanaryFormat,
    paths: Tokens,
    depth: int,
) -> Numbers:
    """ln q of each choice at this depth, paths × choices; equal paths are asked once."""
    distinct, back = np.unique(paths, axis=0, return_inverse=True)
    answers = [
        restrict(
            view.next_logits([np.concatenate([format.prefix, path]) for path in part]), format.choices[depth]
        )
        for part in _batches(distinct)
    ]
    edges: Numbers = np.concatenate(answers)[back.ravel()]
    return edges


def restrict(logs: Numbers, allowed: Tokens) -> Numbers:
    """ln q of the allowed tokens, from ln p of all, rows × allowed."""
    chosen = logs[:, allowed]
    answer: Numbers = np.minimum(chosen - np.logaddexp.reduce(chosen, axis=1, keepdims=True), 0.0)
    return answer


def _batches(rows: Tokens) -> Iterator[Tokens]:
    for start in range(0, len(rows), _BATCH):
        yield rows[start : start + _BATCH]


def _pop_inner(
    queue: list[tuple[float, tuple[int, ...]]], depth: int, most: int
) -> tuple[list[tuple[float, tuple[int, ...]]], list[tuple[float, tuple[int, ...]]]]:
    """The likeliest inner nodes of the queue, and the leaves that lay between them."""
    opened: list[tuple[float, tuple[int, ...]]] = []
    leaves: list[tuple[float, tuple[int, ...]]] = []
    while queue and len(opened) < most:
        entry = heapq.heappop(queue)
        (leaves if len(entry[1]) == depth else opened).append(entry)
    return opened, leaves


def _expand(
    view: TokenView,
    format: CanaryFormat,
    opened: list[tuple[float, tuple[int, ...]]],
) -> Iterator[tuple[float, tuple[int, ...]]]:
    prefixes = [np.concatenate([format.prefix, np.array(path, dtype=np.int64)]) for _, path in opened]
    answers = view.next_logits(prefixes)
    for (cost, path), logs in zip(opened, answers, strict=True):
        place = format.choices[len(path)]
        for token, log in zip(place.tolist(), restrict(logs[None], place)[0].tolist(), strict=True):
            yield cost - log, (*path, token)
