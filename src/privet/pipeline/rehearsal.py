"""``rehearse``: what an attacker would get from a planned release, before anything is read or spent.

The planned answers are given about stand-in people (``stand_ins``), with the planned noise, at the planned ε,
at half of it and at double. Three adversaries attack them:

- *differencing*: knows everybody else, and wants one column of one person, or whether they are there at all.
  This is the adversary of differential privacy; the target has the values that are the farthest apart.
- *averaging*: the same with ten repeats. From a ledger that keeps its answers they are the same answer, and
  nothing is gained; ten fresh releases cost ten times as much, and their ceiling is that of ten.
- *least squares*: knows every other column of everybody and nobody's secret, and solves all answers for it.

The figures are about the mechanism and the worst values that its bounds allow, not about the real table. Each
is an attack that was run: a better one may exist, and only the ceiling speaks of all. Where the table has
fewer people than the rehearsal, differencing says the same, because noise does not depend on them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from privet.accounting import account
from privet.arguments import open_fraction, whole
from privet.attacks.reconstruction import KnownOthers, LeastSquares, SubsetSums
from privet.auditing import Shares
from privet.bounds import Interval
from privet.ceilings import Ceiling
from privet.errors import InvalidArgument
from privet.guarantees import Curve, Guarantee
from privet.ledger import Entry, Ledger
from privet.pipeline.recovery_results import judge_recoveries
from privet.pipeline.rehearsed_answers import RehearsedAnswers, attackable_labels
from privet.pipeline.stand_ins import SecretColumn, StandIns, secret_columns
from privet.public_calls import check_public_calls
from privet.randomness import NoiseSource, SecureNoise, experiment
from privet.recoveries import Recoveries
from privet.releasing import Answer, Budget, Contribution, ReleasePlan, Statistic
from privet.reporting.recovery_facts import RecoveryResult
from privet.scores import Bits
from privet.views import Numbers

__all__ = ["Rehearsal", "RehearsedLevel", "rehearse", "rehearse_plan"]

_LEVELS = (0.5, 1.0, 2.0)  # of the planned ε
_REPEATS = 10  # of an answer that is averaged
_TRAINING = 40  # releases from which the adversary learns how wide the noise is
_SYSTEMS = 10  # releases that least squares attacks
_MOST_COLUMNS = 4  # secrets that are attacked, in the order of the plan
_MEAN_TO_STANDARD = 1.3  # the standard deviation over the mean absolute error: 1.25 to 1.41
_AFFINE = 1e-3  # how far an answer may be from a sum over people, relative to its largest change


@final
@dataclass(frozen=True, eq=False)
class RehearsedLevel:
    """What each attack would get at one ε."""

    epsilon: float
    delta: float
    claim: Guarantee
    results: tuple[RecoveryResult, ...]


@final
@dataclass(frozen=True, eq=False)
class Rehearsal:
    """What attackers would get from a planned release at half of its ε, at it, and at double.

    ``people`` stand-ins were drawn, from answers that were given before if ``from_answers`` and from public
    bounds and keys otherwise. ``left_out`` are statistics that no attack here understands.
    """

    levels: tuple[RehearsedLevel, ...]
    people: int
    from_answers: bool
    left_out: tuple[str, ...]
    confidence: float

    def __repr__(self) -> str:
        epsilons = ", ".join(f"{level.epsilon:g}" for level in self.levels)
        return f"Rehearsal(ε = {epsilons}; {len(self.levels[0].results)} attacks; {self.people} stand-ins)"


@final
@dataclass(frozen=True, eq=False)
class _System:
    """The answers as sums over people: which answers are such sums, and how each person moves them."""

    column: SecretColumn
    nobody: Numbers  # the answers where everybody has the first value
    changes: Numbers  # people × answers
    sums: Bits  # which answers are sums over people

    @classmethod
    def of(cls, released: RehearsedAnswers, stand_ins: StandIns, column: SecretColumn) -> "_System":
        """Change the value of one person after the other, without noise."""
        people = stand_ins.people
        rows = np.vstack([np.zeros((1, people)), np.ones((1, people)), np.eye(people)]).astype(int)
        nobody, everybody, *each = (released.exactly(_table(stand_ins, column, row)) for row in rows)
        changes = np.stack(each) - nobody
        largest = np.abs(changes).max(axis=0)
        misfit = np.abs(changes.sum(axis=0) - (everybody - nobody))
        moved = largest > 1e-6 * (1 + np.abs(nobody))
        return cls(column, nobody, changes, moved & (misfit <= _AFFINE * largest * people))


def rehearse(
    statistics: Mapping[str, Statistic],
    *,
    unit: str | None,
    epsilon: float,
    delta: float = 0.0,
    rows: int = 1,
    groups: int = 1,
    people: int = 100,
    releases: int = 2000,
    seed: int = 0,
) -> Rehearsal:
    """Attack a release before it is made: the arguments of ``release`` without the data.

    Nothing is read and nothing is spent. ``people`` stand-ins are drawn from public bounds and keys, and
    each attack sees ``releases`` releases. ``seed`` is of the stand-ins, not of the noise.

    >>> from privet.releasing import Sum
    >>> found = rehearse({"salaries": Sum("salary", 0, 10_000)}, unit="person", epsilon=1.0, releases=50)
    >>> [level.epsilon for level in found.levels]
    [0.5, 1.0, 2.0]
    """
    plan = ReleasePlan(
        statistics=tuple(statistics.items()),
        unit=unit,
        budget=Budget(epsilon=epsilon, delta=delta),
        contribution=Contribution(rows=rows, groups=groups),
    )
    return rehearse_plan(plan, people=people, releases=releases, seed=seed)


def rehearse_plan(
    plan: ReleasePlan,
    *,
    answers: Sequence[Answer] = (),
    people: int = 100,
    releases: int = 2000,
    seed: int = 0,
    confidence: float = 0.95,
    noise: NoiseSource | None = None,
) -> Rehearsal:
    """Attack a plan before it is run. ``answers`` that were given before shape the stand-ins, and cost
    nothing.
    """
    whole("people", people, least=2, most=2000)
    whole("releases", releases, least=20, most=100_000)
    open_fraction("confidence", confidence)
    labels = attackable_labels(plan)
    if not labels:
        raise InvalidArgument(
            "'statistics' must hold one whose keys are listed, got none, and no attack here understands the "
            "others. List the keys of a statistic to rehearse it."
        )
    columns = secret_columns(plan, answers)
    generator = experiment(seed)
    stand_ins = StandIns.draw(plan, columns, people, generator)
    source = SecureNoise() if noise is None else noise
    exact = RehearsedAnswers(plan, source)
    every_system = [_System.of(exact, stand_ins, column) for column in columns[:_MOST_COLUMNS]]
    systems = {system.column.name: system for system in every_system if system.sums.sum() >= 2}
    attacked: list[tuple[ReleasePlan, list[tuple[Recoveries, Guarantee]]]] = []
    for level in _LEVELS:
        scaled = replace(plan, budget=replace(plan.budget, epsilon=plan.budget.epsilon * level))
        released = RehearsedAnswers(scaled, source)
        attacked.append((scaled, _attack(released, stand_ins, systems, releases, generator)))
    every = [recoveries for _, found in attacked for recoveries, _ in found]
    shares = Shares.of(confidence, others=[], recoveries=every)
    return Rehearsal(
        levels=tuple(
            RehearsedLevel(
                epsilon=scaled.budget.epsilon,
                delta=scaled.budget.delta,
                claim=found[0][1],
                results=tuple(
                    judge_recoveries(recoveries, claim, delta=max(scaled.budget.delta, 1e-12), shares=shares)
                    for recoveries, claim in found
                ),
            )
            for scaled, found in attacked
        ),
        people=people,
        from_answers=any(column.mean is not None or column.shares is not None for column in columns),
        left_out=tuple(label for label, _ in plan.statistics if label not in labels),
        confidence=confidence,
    )


def _claim(plan: ReleasePlan, times: int = 1) -> Guarantee:
    labels = [label for label, _ in plan.statistics]
    claim = account(Ledger(plan.relation, tuple(map(Entry, labels * times, plan.events * times))))
    return replace(claim, curve=_RememberedCeilings(claim.curve))


@final
class _RememberedCeilings(Curve):
    """The same curve; many attacks ask for its ceiling at the same rate, which takes a while."""

    def __init__(self, curve: Curve) -> None:
        self._curve = curve
        self._known: dict[float, Ceiling] = {}

    def delta(self, epsilon: float) -> Interval:
        return self._curve.delta(epsilon)

    def epsilon(self, delta: float) -> Interval:
        return self._curve.epsilon(delta)

    def ceiling(self, fpr: float, near: float | None = None) -> Ceiling:
        if fpr not in self._known:
            self._known[fpr] = self._curve.ceiling(fpr, near)
        return self._known[fpr]


def _attack(
    released: RehearsedAnswers,
    stand_ins: StandIns,
    systems: Mapping[str, _System],
    releases: int,
    generator: np.random.Generator,
) -> list[tuple[Recoveries, Guarantee]]:
    """Every attack, each with the claim that caps it."""
    claim, repeated = _claim(released.plan), _claim(released.plan, _REPEATS)
    target = stand_ins.target()
    present = [stand_ins.without_target(), stand_ins.with_target(stand_ins.farthest())]
    found = [(_presence(released, present, releases, generator), claim)]
    for column in stand_ins.columns[:_MOST_COLUMNS]:
        tables = [stand_ins.with_target(target | {column.name: value}) for value in column.values]
        name = f"differencing: {column.name}"
        if not _tells_apart(released, tables):
            continue
        found.append((_differencing(released, tables, releases, generator, name), claim))
        if len(found) == 2:
            for words, fresh, cap in (("stored answers", False, claim), ("fresh releases", True, repeated)):
                named = f"averaging {_REPEATS} {words}: {column.name}"
                averaged = _averaging(released, tables, releases // 4, generator, named, fresh=fresh)
                found.append((averaged, cap))
        system = systems.get(column.name)
        if system is not None:
            found.append((_least_squares(released, stand_ins, system, generator), claim))
    return found


def _tells_apart(released: RehearsedAnswers, tables: Sequence[object]) -> bool:
    """Whether any answer depends on the value at all."""
    expected = np.stack([released.exactly(table) for table in tables])
    return bool((np.ptp(expected, axis=0) > 1e-6 * (1 + np.abs(expected).max(axis=0))).any())


def _scales(released: RehearsedAnswers, table: object, expected: Numbers) -> Numbers:
    """How wide the noise of each answer is, learnt from releases about a table that the adversary knows."""
    gaps = np.abs(released.release(table, _TRAINING) - expected)
    scales: Numbers = np.maximum(gaps.mean(axis=0), 1e-9 * (1 + np.abs(expected)))
    return scales


def _presence(
    released: RehearsedAnswers, tables: Sequence[object], releases: int, generator: np.random.Generator
) -> Recoveries:
    """Is the target there? A coin decides; a hit is "yes"."""
    attack, expected, scales = _prepare(released, tables, "differencing: presence")
    coin = generator.permutation(np.arange(releases) % 2 == 0)
    answers = _draw(released, tables, coin.astype(np.int64))
    says_yes = attack.pick(answers, expected, scales) == 1
    return Recoveries(attack.name, attack.adversary, "the person is said to be there", says_yes, coin)


def _differencing(
    released: RehearsedAnswers,
    tables: Sequence[object],
    releases: int,
    generator: np.random.Generator,
    name: str,
) -> Recoveries:
    attack, expected, scales = _prepare(released, tables, name)
    truths = generator.integers(0, len(tables), releases)
    return attack.run(_draw(released, tables, truths), expected, scales, truths)


def _averaging(
    released: RehearsedAnswers,
    tables: Sequence[object],
    targets: int,
    generator: np.random.Generator,
    name: str,
    *,
    fresh: bool,
) -> Recoveries:
    """Differencing with the mean of several answers; a store gives the same answer every time."""
    attack, expected, scales = _prepare(released, tables, name)
    truths = generator.integers(0, len(tables), targets)
    rounds = [_draw(released, tables, truths) for _ in range(_REPEATS if fresh else 1)]
    means = np.mean(rounds if fresh else rounds * _REPEATS, axis=0)
    return attack.run(means, expected, scales, truths)


def _prepare(
    released: RehearsedAnswers, tables: Sequence[object], name: str
) -> tuple[KnownOthers, Numbers, Numbers]:
    expected = np.stack([released.exactly(table) for table in tables])
    attack = KnownOthers(gaussian=released.plan.budget.delta > 0, name=name)
    return attack, expected, _scales(released, tables[0], expected[0])


def _draw(
    released: RehearsedAnswers, tables: Sequence[object], truths: "np.typing.NDArray[np.int64]"
) -> Numbers:
    """One release about the table of each truth."""
    answers = {
        value: list(released.release(tables[value], int((truths == value).sum())))
        for value in np.unique(truths).tolist()
    }
    return np.stack([answers[truth].pop() for truth in truths.tolist()])


def _table(stand_ins: StandIns, column: SecretColumn, bits: "np.typing.NDArray[np.int64]") -> object:
    return stand_ins.with_values(column.name, [column.ends[bit] for bit in bits.tolist()])


def _least_squares(
    released: RehearsedAnswers, stand_ins: StandIns, system: _System, generator: np.random.Generator
) -> Recoveries:
    """Solve the answers for everybody's value, one of two."""
    people, column, sums = stand_ins.people, system.column, system.sums
    scales = _scales(released, _table(stand_ins, column, np.zeros(people, dtype=int)), system.nobody)[sums]
    queries = (system.changes[:, sums] / scales).T
    parts = []
    for _ in range(_SYSTEMS):
        bits = generator.integers(0, 2, people)
        answers = released.release(_table(stand_ins, column, bits), 1)[0] - system.nobody
        published = SubsetSums(queries, answers[sums] / scales, noise=_MEAN_TO_STANDARD)
        parts.append(LeastSquares().run(published, bits, candidates=2))
    hits = np.concatenate([part.hits for part in parts])
    criterion = f"which of two values of {column.name}"
    name = f"least squares: {column.name}"
    return Recoveries(name, parts[0].adversary, criterion, hits, candidates=2)


check_public_calls(__name__)
