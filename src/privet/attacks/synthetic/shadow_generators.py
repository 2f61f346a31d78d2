"""Membership by shadow generators: the same generator, run many times with a person and without them.

A generator is any function from a table to a synthetic table. The people of the game are split at random into
halves, again and again; the generator is run on every half. For each run and each person a few signals of the
synthetic table are written down: how near its rows come to the person, how dense it is there, and how many of
its rows share the person's values of one column, or of two. The likelihood ratio of these signals, with the
person against without, is the score (LiRA, with signals of a table in place of a model's confidence).

Signals are not independent of each other, so they are not simply added up. Each of them, and their linear
discriminant, is tried against the shadow runs; the best is used against the published table
(``membership.crossfit``), which has no part in this choice.

*Reference*: Stadler, Oprisanu & Troncoso 2022, "Synthetic data: anonymisation groundhog day" (shadow
generators, and histograms of a table as features); Carlini et al. 2022 for the likelihood ratio; Houssiau et
al. 2022, "TAPAS", for counts of a target's marginals.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import whole
from privet.attacks.membership.crossfit import choose_setting
from privet.attacks.membership.lira import LiRA
from privet.attacks.membership.signals import TargetSignals
from privet.attacks.membership.variances import Overall, VarianceEstimate
from privet.attacks.synthetic.densities import TreeDensity, bin_column
from privet.attacks.synthetic.game import SyntheticGame, draw_game
from privet.attacks.synthetic.gower import distance_blocks
from privet.errors import InvalidArgument
from privet.public_calls import check_public_calls
from privet.published_tables import PublishedTable, ValueKind
from privet.scores import References, Scores
from privet.views import Adversary, Labels, Numbers

__all__ = ["SHADOW_ADVERSARY", "Generate", "ShadowGenerators", "table_signals", "to_arrays"]

# From a table, as a mapping of arrays, to a synthetic table of any form that PublishedTable.of takes.
Generate = Callable[[Mapping[str, NDArray[Any]], np.random.Generator], object]

SHADOW_ADVERSARY = Adversary(
    sees="the synthetic table",
    knows="the rows of people, and the generator, which can be run on any of them",
    wants="who was in the original",
)
_SIGNALS = 6
_BANDWIDTH, _FLOOR, _SECOND = 0.3, 0.01, 5
_BINS = 10
_MOST_PAIRS = 45  # of columns, the first ones in a random order


@final
@dataclass(frozen=True, eq=False)
class ShadowGenerators:
    """Scores people by what the generator makes with them and without them.

    *Adversary*: sees the synthetic table; knows the rows of people, and the generator; wants to know who was
    in the original.

    ``generate(table, rng)`` gets a mapping from names to arrays (None, NaN or NaT where a value is missing)
    and gives a table. ``runs`` is how often it is run, an even number: each random half and its complement.
    """

    generate: Generate
    runs: int = 16
    targets: int | None = None
    variance: VarianceEstimate = field(default_factory=Overall)
    seed: int = 0

    name = "shadow generators"

    def __post_init__(self) -> None:
        if whole("runs", self.runs, least=4) % 2:
            raise InvalidArgument(
                f"'runs' must be even, got {self.runs}. Each half is run with its complement."
            )
        whole("seed", self.seed, least=0)

    def run(self, synthetic: PublishedTable, original: PublishedTable, control: PublishedTable) -> Scores:
        """Score people of both sides; higher = more likely in the original."""
        game = draw_game(synthetic, original, control, targets=self.targets, seed=self.seed)
        references = self._run_shadows(game)
        published = table_signals(game.people, game.synthetic, seed=self.seed)
        return Scores(self._judge(published, references), game.members, self.name)

    def _run_shadows(self, game: SyntheticGame) -> References:
        """The signals of every run. Neither the published table nor the coins are looked at."""
        generator = np.random.default_rng([self.seed, 1])
        everyone = game.people.below(game.bystanders)
        rest = np.arange(len(game), len(everyone))
        signals, members = [], []
        for chosen in _halves(len(game), self.runs, generator):
            rows = np.concatenate([np.flatnonzero(chosen), rest])
            made = PublishedTable.of(self.generate(to_arrays(everyone.take(rows)), generator))
            if not any(name in made for name in game.names) or len(made) == 0:
                raise InvalidArgument(
                    "'generate' must give a table with rows and with columns of the table that it gets, got "
                    "none. Return a frame or a mapping of arrays."
                )
            stacked = game.people.below(made)
            people = stacked.take(np.arange(len(game)))
            published = stacked.take(np.arange(len(game), len(stacked)))
            signals.append(table_signals(people, published, seed=self.seed))
            members.append(chosen)
        return References(np.stack(signals), np.stack(members))

    def _judge(self, published: Numbers, references: References) -> Numbers:
        def scores(target: TargetSignals, known: References) -> Iterator[Numbers]:
            for weights in (_discriminate(known), *np.eye(_SIGNALS)):
                mixed = References(np.einsum("q,mqr->mr", weights, known.signals)[:, None], known.members)
                yield LiRA(mixed, self.variance).judge((weights @ target.phi)[None])

        best = choose_setting(references, scores, published=1, least=2)
        return list(scores(TargetSignals(published), references))[best or 0]


def _discriminate(references: References) -> Numbers:
    """The weights of signals whose sum tells best whether a person was in: Σ⁻¹(μ_in − μ_out), for all people.

    Each person's own mean is taken off first, so that only what their presence changes counts.
    """
    signals = references.signals - references.signals.mean(axis=0)
    flat = signals.transpose(0, 2, 1).reshape(-1, _SIGNALS)
    coins = references.members.reshape(-1)
    shift = flat[coins].mean(axis=0) - flat[~coins].mean(axis=0)
    spread = np.cov(np.where(coins[:, None], flat - shift / 2, flat + shift / 2), rowvar=False)
    scale = np.sqrt(np.diag(spread)) + 1e-12
    shrunk = spread / np.outer(scale, scale) + 1e-3 * np.eye(_SIGNALS)
    weights: Numbers = np.linalg.solve(shrunk, shift / scale) / scale
    return weights


def _halves(count: int, runs: int, generator: np.random.Generator) -> Iterator[NDArray[np.bool_]]:
    for _ in range(runs // 2):
        chosen = generator.permutation(count) < count // 2
        yield chosen
        yield ~chosen


def table_signals(people: PublishedTable, synthetic: PublishedTable, *, seed: int = 0) -> Numbers:
    """What a synthetic table says of each person, signals × people; higher = more like the person.

    The nearness of the nearest and of the fifth nearest row; the density by a kernel; the mean ln share of
    rows with the person's value, over columns and over pairs of columns; the density by a tree of pairs.
    """
    names, columns = people.names, len(people.names)
    near, dense = np.empty((2, len(people))), np.empty(len(people))
    second = min(_SECOND, len(synthetic)) - 1
    for start, block in distance_blocks(people, synthetic, names):
        here = slice(start, start + len(block))
        least = block.min(axis=1)
        near[0, here] = least
        near[1, here] = np.partition(block, second, axis=1)[:, second]
        weights = np.exp(-columns / _BANDWIDTH * (block - least[:, None]))
        dense[here] = np.log(weights.mean(axis=1, dtype=np.float64)) - columns / _BANDWIDTH * least
    cells = [bin_column(synthetic[name], synthetic[name], people[name], _BINS) for name in names]
    single = np.mean([_log_shares(one, two) for one, _, two in cells], axis=0)
    pairs = list(combinations(range(columns), 2))
    chosen = np.random.default_rng(seed).permutation(len(pairs))[:_MOST_PAIRS]
    double = [_log_shares(*_join(cells[a], cells[b])) for a, b in (pairs[place] for place in chosen)]
    joint = np.mean(double, axis=0) if double else single
    tree = TreeDensity(_BINS).log_density(people, synthetic)
    return np.stack([*-np.log(columns * near + _FLOOR), dense, single, joint, tree])


_Cells = tuple[Labels, Labels, Labels]


def _join(first: _Cells, second: _Cells) -> tuple[Labels, Labels]:
    width = 1 + max(int(second[0].max()), int(second[2].max()))
    return first[0] * width + second[0], first[2] * width + second[2]


def _log_shares(rows: Labels, people: Labels) -> Numbers:
    """ln of the share of rows with each person's value, half a row being added."""
    values, counts = np.unique(rows, return_counts=True)
    place = np.minimum(np.searchsorted(values, people), len(values) - 1)
    found = np.where(values[place] == people, counts[place], 0)
    answer: Numbers = np.log((found + 0.5) / (len(rows) + 1.0))
    return answer


def to_arrays(table: PublishedTable) -> dict[str, NDArray[Any]]:
    """The table as a mapping of arrays: text with None, numbers with NaN, dates with NaT where missing.

    Whole numbers without a gap are integers.
    """
    found: dict[str, NDArray[Any]] = {}
    for column in table.columns:
        values = column.values
        if column.kind is ValueKind.TEXT and column.missing.any():
            values = values.copy()
            values[column.missing] = None
        elif column.kind is ValueKind.NUMBER and _are_whole(values):
            values = values.astype(np.int64)
        found[column.name] = values
    return found


def _are_whole(values: Numbers) -> bool:
    return bool((values == np.round(values)).all() and (np.abs(values) < 2.0**53).all())


check_public_calls(__name__)
