"""AIM, MST and MWEM: the ledger stays in the budget, whatever happens; what is released makes sense."""

import math
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import privet
from privet.accounting import Concentrated, Pure
from privet.adjacency import AddRemove, ReplaceOne, Unit, ZeroOut
from privet.caveats import Caveat
from privet.errors import InvalidArgument, MissingPackage
from privet.events import DiscreteGaussian, DiscreteLaplace, ExponentialMechanism, Opaque, Repeat
from privet.randomness import SeededNoise, experiment
from privet.releasing.failure import ReleaseFailed
from privet.releasing.synthetic import (
    AIM,
    MST,
    MWEM,
    Categories,
    Domain,
    MirrorDescent,
    PrivatePGM,
    Workload,
    all_marginals,
    noisy_access,
    pgm,
)
from privet.releasing.synthetic.budgets import concentrated_budget, spent_rho
from privet.releasing.synthetic.estimation import Estimator
from privet.releasing.synthetic.marginals import ExactMarginals
from privet.releasing.synthetic.noisy_access import NoisyAccess, selection_factor

DOMAIN = Domain(
    tuple(Categories(name, tuple(range(size))) for name, size in zip("abcd", (2, 3, 2, 4), strict=True))
)
PAIRS = all_marginals(DOMAIN, 2)
ADJACENCIES = st.sampled_from([AddRemove(), ReplaceOne(), ZeroOut()])
QUICK = MirrorDescent(30, 1e-2)


def correlated(rows, seed=0):
    generator = experiment(seed)
    a = generator.integers(0, 2, rows)
    return {
        "a": a,
        "b": np.minimum(a + generator.integers(0, 2, rows), 2),
        "c": generator.integers(0, 2, rows),
        "d": np.where(generator.random(rows) < 0.9, 2 * a + 1, generator.integers(0, 4, rows)),
    }


def aim(epsilon=1.0, **changes):
    return replace(
        AIM(
            domain=DOMAIN, workload=PAIRS, epsilon=epsilon, delta=1e-6, adjacency=AddRemove(), estimator=QUICK
        ),
        **changes,
    )


def mst(epsilon=1.0, **changes):
    return replace(
        MST(domain=DOMAIN, epsilon=epsilon, delta=1e-6, adjacency=AddRemove(), estimator=QUICK), **changes
    )


def mwem(epsilon=1.0, **changes):
    return replace(
        MWEM(domain=DOMAIN, workload=PAIRS, epsilon=epsilon, adjacency=AddRemove(), passes=5), **changes
    )


@given(
    st.floats(0.05, 8.0),
    st.sampled_from([1e-3, 1e-6, 1e-10]),
    ADJACENCIES,
    st.sampled_from([None, 1, 3, 200]),
)
def test_aim_stays_in_its_budget_and_uses_it(epsilon, delta, adjacency, rounds):
    mechanism = aim(epsilon, delta=delta, adjacency=adjacency, rounds=rounds)
    ledger = mechanism.release(correlated(300)).ledger
    assert 0.995 * epsilon < privet.account(ledger, accountant=Concentrated()).epsilon(delta=delta) <= epsilon
    assert spent_rho(ledger) <= concentrated_budget(epsilon=epsilon, delta=delta)
    assert {type(leaf) for leaf in leaves(ledger.event)} == {DiscreteGaussian, ExponentialMechanism}


@given(st.floats(0.05, 8.0), st.sampled_from([1e-3, 1e-6, 1e-10]), ADJACENCIES)
def test_mst_stays_in_its_budget_and_says_so_beforehand(epsilon, delta, adjacency):
    mechanism = mst(epsilon, delta=delta, adjacency=adjacency)
    ledger = mechanism.release(correlated(300)).ledger
    used = privet.account(ledger, accountant=Concentrated()).epsilon(delta=delta)
    promised = privet.account(mechanism.event, adjacency=adjacency, accountant=Concentrated()).epsilon(
        delta=delta
    )
    assert 0.999 * epsilon < used <= promised <= epsilon


@given(st.floats(0.01, 20.0), ADJACENCIES, st.integers(1, 12), st.sampled_from([None, 300]))
def test_mwem_stays_in_its_budget_and_says_so_beforehand(epsilon, adjacency, rounds, total):
    mechanism = mwem(epsilon, adjacency=adjacency, rounds=rounds, total=total)
    ledger = mechanism.release(correlated(300)).ledger
    used = privet.account(ledger, accountant=Pure()).epsilon(delta=0.0)
    promised = privet.account(mechanism.event, adjacency=adjacency, accountant=Pure()).epsilon(delta=0.0)
    assert 0.999 * epsilon < used <= promised <= epsilon


@pytest.mark.parametrize("made", [aim, mst, mwem])
def test_the_default_accountant_finds_no_more_than_the_budget(made):
    ledger = made(1.0).release(correlated(300)).ledger
    assert privet.account(ledger).epsilon(delta=0.0 if made is mwem else 1e-6) <= 1.0


def leaves(event):
    match event:
        case privet.events.Compose(parts):
            return [leaf for part in parts for leaf in leaves(part)]
        case privet.events.Repeat(inner, _):
            return leaves(inner)
    return [event]


@pytest.mark.parametrize("made", [aim, mst, mwem])
@pytest.mark.parametrize("rows", [0, 1, 2])
def test_hardly_any_rows_are_no_special_case(made, rows):
    released = made().release(correlated(rows))
    found = released.answer(("a", "d"))
    assert found.shape == (2, 4)
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    assert released.total >= 1
    assert set(released.sample(5, experiment(0))) == set("abcd")


@pytest.mark.parametrize("made", [aim, mst, mwem])
def test_with_a_large_budget_the_answers_are_near_and_a_category_never_seen_stays_rare(made):
    table = correlated(5000)
    table["b"] = np.minimum(table["b"], 1)  # 2 is never seen
    many = {"epsilon": 200.0} | (
        {"rounds": 30, "passes": 300} if made is mwem else {"estimator": MirrorDescent()}
    )
    released = made(**many).release(table, SeededNoise(0))
    counts = ExactMarginals(DOMAIN, DOMAIN.encode(table))
    for axes, columns in (((0, 3), ("a", "d")), ((0, 1), ("a", "b"))):
        assert np.abs(released.answer(columns) - counts.marginal(axes)).sum() / 2 / 5000 < 0.03
    assert released.answer(("b",))[2] < 50
    sample = released.sample(5000, experiment(1))
    drawn = ExactMarginals(DOMAIN, DOMAIN.encode(sample))
    assert np.abs(drawn.marginal((0, 3)) - counts.marginal((0, 3))).sum() / 2 / 5000 < 0.04
    assert released.ledger.caveats >= {Caveat.SEEDED_NOISE}


def test_the_same_question_has_the_same_answer_in_any_order_of_columns():
    released = mst().release(correlated(100))
    np.testing.assert_array_equal(released.answer(("a", "d")), released.answer(("a", "d")))
    np.testing.assert_allclose(released.answer(("d", "a")), released.answer(("a", "d")).T)
    one, other = (released.sample(50, experiment(4)) for _ in range(2))
    assert all((one[name] == other[name]).all() for name in one)


def test_rows_outside_of_the_domain_leave_no_trace():
    table = correlated(200)
    more = {name: np.concatenate([values, np.full(50, 99)]) for name, values in table.items()}
    one, other = (mst().release(t, SeededNoise(3)) for t in (table, more))
    assert one.ledger == other.ledger
    np.testing.assert_array_equal(one.answer(("a", "b")), other.answer(("a", "b")))


def test_a_user_with_many_rows_counts_once():
    table = correlated(400)
    who = {"who": np.arange(400)}
    flood = {name: np.concatenate([v, np.repeat(v[:1], 1000)]) for name, v in (table | who).items()}
    asked = mst(adjacency=AddRemove(Unit.USER), unit="who")
    one, other = (asked.release(t, SeededNoise(3)) for t in (table | who, flood))
    np.testing.assert_array_equal(one.answer(("a", "b")), other.answer(("a", "b")))


# Neighbours.


@given(
    st.lists(st.tuples(*(st.integers(-1, n - 1) for n in DOMAIN.shape)), min_size=1, max_size=8),
    ADJACENCIES,
    st.data(),
)
def test_one_unit_moves_marginals_and_scores_by_no_more_than_the_events_say(rows, adjacency, data):
    codes = np.array(rows)
    if isinstance(adjacency, ReplaceOne):
        near = codes.copy()
        near[0] = data.draw(st.tuples(*(st.integers(-1, n - 1) for n in DOMAIN.shape)))
    else:
        near = codes[1:]
    first, second = (
        ExactMarginals(DOMAIN, DOMAIN.encode({name: c[:, k] for k, name in enumerate("abcd")}))
        for c in (codes, near)
    )
    model = experiment(data.draw(st.integers(0, 99))).random((2, 4)) * 9
    for axes in [(0,), (3,), (0, 3), (1, 2)]:
        moved = np.abs(first.marginal(axes) - second.marginal(axes))
        assert moved.max() <= 1
        assert np.count_nonzero(moved) <= adjacency.contribution_distance
    scores = [
        NoisyAccess(c, adjacency, SeededNoise(0), frozenset())._distance((0, 3), model)
        for c in (first, second)
    ]
    assert abs(scores[0] - scores[1]) <= 8 * adjacency.contribution_distance  # in eighths


@given(st.floats(1e-9, 100.0), st.integers(1, 2**20), st.integers(0, 2**36))
def test_log_weights_are_exact(epsilon, sensitivity, score):
    factor = selection_factor(epsilon, sensitivity)
    assert factor <= epsilon / (2 * sensitivity) < factor * (1 + 2.0**-14)
    numerator, denominator = factor.as_integer_ratio()
    assert (factor * score).as_integer_ratio() == (
        numerator * score // math.gcd(numerator * score, denominator),
        denominator // math.gcd(numerator * score, denominator),
    )


WIDE = Domain((Categories("cell", tuple(range(20_000))),))


def epsilon_below(hits, others, trials, confidence=1 - 1e-6):
    """A lower bound on ln(p/q) from two counts (Clopper–Pearson); wrong with probability 2·10⁻⁶ at most."""
    low = stats.beta.ppf(1 - confidence, hits, trials - hits + 1)
    high = stats.beta.ppf(confidence, others + 1, trials - others)
    return math.log(low / high)


def measured_epsilon(scale):
    """Every cell is an experiment of its own: no row in it, or one."""
    shots = []
    for present in (1, 0):
        counts = ExactMarginals(WIDE, WIDE.encode({"cell": np.arange(20_000 * present)}))
        seen = NoisyAccess(counts, AddRemove(), SeededNoise(present), frozenset())
        shots.append(int((seen.measure((0,), "cell", DiscreteLaplace, scale) >= 1).sum()))
    return epsilon_below(*shots, 20_000)


def test_half_the_noise_of_a_marginal_is_caught(monkeypatch):
    assert 0.8 < measured_epsilon(1.0) <= 1.0
    honest = noisy_access._SAMPLERS[DiscreteLaplace]
    monkeypatch.setitem(
        noisy_access._SAMPLERS, DiscreteLaplace, lambda scale, *rest: honest(scale / 2, *rest)
    )
    assert measured_epsilon(1.0) > 1.0


def gaussian_spread(seed):
    counts = ExactMarginals(WIDE, WIDE.encode({"cell": []}))
    noise = NoisyAccess(counts, AddRemove(), SeededNoise(seed), frozenset()).measure(
        (0,), "cell", DiscreteGaussian, 7.0
    )
    return noise.std()


def test_half_the_gaussian_noise_is_caught(monkeypatch):
    """20,000 cells: 5 % is ten standard deviations of the estimate."""
    assert gaussian_spread(1) == pytest.approx(7.0, rel=0.05)
    honest = noisy_access._SAMPLERS[DiscreteGaussian]
    monkeypatch.setitem(
        noisy_access._SAMPLERS, DiscreteGaussian, lambda scale, *rest: honest(scale / 2, *rest)
    )
    assert gaussian_spread(1) != pytest.approx(7.0, rel=0.05)


def chosen_epsilon(trials=2000):
    """One row more raises the error of 'a' by one and lowers that of 'c' by one: the worst that a row can do."""
    hits = []
    for rows in (10, 11):
        counts = ExactMarginals(DOMAIN, DOMAIN.encode({name: np.zeros(rows, dtype=int) for name in "abcd"}))
        seen = NoisyAccess(counts, AddRemove(), SeededNoise(rows), frozenset())
        answers = [
            np.array([9.0, 0.0]),
            np.array([12.0, 0.0]),
        ]  # errors 1, 2 with ten rows and 2, 1 with eleven
        picks = [seen.choose([(0,), (2,)], answers, [0.0, -2.0], [1, 1], 2.0) for _ in range(trials)]
        hits.append(picks.count(0))
    return epsilon_below(hits[1], hits[0], trials)


def test_a_dropped_factor_in_the_choice_is_caught(monkeypatch):
    assert 0.5 < chosen_epsilon() <= 2.0
    honest = noisy_access.selection_factor
    monkeypatch.setattr(noisy_access, "selection_factor", lambda epsilon, reach: 2 * honest(epsilon, reach))
    assert chosen_epsilon() > 2.0


# What goes wrong on the way.


@dataclass(frozen=True)
class Breaking(Estimator):
    """Fails at the given fits."""

    at: frozenset
    calls: list = field(default_factory=list)

    def fit(self, shape, measurements, start=None):
        self.calls.append(None)
        if len(self.calls) in self.at:
            raise MemoryError("a row with age 17")
        return QUICK.fit(shape, measurements, start)


@pytest.mark.parametrize("made", [aim, mst])
def test_a_failed_release_has_its_ledger_and_does_not_say_why(made):
    with pytest.raises(ReleaseFailed) as failure:
        made(estimator=Breaking(frozenset({2}))).release(correlated(100))
    assert len(failure.value.ledger) >= 4
    assert "17" not in str(failure.value)
    assert failure.value.__cause__ is None


def test_a_run_that_is_interrupted_goes_on_within_its_budget():
    mechanism = aim(estimator=Breaking(frozenset({1, 2, 3, 5, 8})))
    run = mechanism.start(correlated(200))
    failures, before = 0, run.ledger
    assert len(before) == 0
    while not run.done:
        try:
            run.step()
        except MemoryError:
            failures += 1
        assert run.ledger.entries[: len(before)] == before.entries  # nothing spent is forgotten
        before = run.ledger
    assert failures == 5
    assert spent_rho(run.ledger) <= concentrated_budget(epsilon=1.0, delta=1e-6)
    assert run.finish().answer(("a",)).shape == (2,)


def test_a_look_is_written_down_before_its_noise_is_drawn(monkeypatch):
    def broken(*_):
        raise OSError("no entropy")

    monkeypatch.setitem(noisy_access._SAMPLERS, DiscreteGaussian, broken)
    monkeypatch.setattr(noisy_access, "discrete_laplace", broken)
    for made in (aim, mst, mwem):
        run = made().start(correlated(50))
        with pytest.raises(OSError, match="no entropy"):
            run.step()
        assert len(run.ledger) == 1


def test_an_interruption_leaves_the_ledger_as_a_note(monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setitem(noisy_access._SAMPLERS, DiscreteGaussian, stopped)
    with pytest.raises(KeyboardInterrupt) as interruption:
        mst().release(correlated(50))
    note = interruption.value.__notes__[0]
    assert len(privet.Ledger.from_json(note[note.index("{") :])) == 1


def test_a_missing_package_is_said_before_anything_is_spent(monkeypatch):
    def missing():
        raise MissingPackage("mbi")

    monkeypatch.setattr(pgm, "_packages", missing)
    for made in (aim, mst):
        with pytest.raises(MissingPackage):
            made(estimator=PrivatePGM()).release(correlated(50))


@pytest.mark.parametrize(
    "make",
    [
        lambda: aim(epsilon=0.0),
        lambda: aim(epsilon=float("nan")),
        lambda: aim(delta=0.0),
        lambda: aim(most_cells=3),
        lambda: aim(rounds=0),
        lambda: aim(workload=Workload((("nobody",),))),
        lambda: aim(workload=("a",)),
        lambda: aim(adjacency=None),
        lambda: aim(estimator=None),
        lambda: aim(adjacency=AddRemove(Unit.USER)),
        lambda: aim(unit="who"),
        lambda: mst(delta=1.0),
        lambda: mst(domain="abcd"),
        lambda: mst(estimator="descent"),
        lambda: mwem(rounds=0),
        lambda: mwem(total=0),
        lambda: mwem(workload=None),
        lambda: mwem(
            domain=Domain(tuple(Categories(n, tuple(range(100))) for n in "abcd")),
            workload=Workload((("a",),)),
        ),
        lambda: mst().release({"a": [1]}),
        lambda: mst().release(correlated(5)).answer(("z",)),
        lambda: mst().release(correlated(5)).sample(-1, experiment(0)),
    ],
)
def test_refusals(make):
    with pytest.raises(InvalidArgument) as refusal:
        make()
    assert str(refusal.value).count(". ") >= 1


def test_a_single_column_and_a_single_cell_work():
    for sizes in ((3,), (1,), (1, 1)):
        domain = Domain(tuple(Categories(n, tuple(range(s))) for n, s in zip("ab", sizes, strict=False)))
        table = {name: np.zeros(20, dtype=int) for name in domain.names}
        for made in (aim, mst, mwem):
            changes = {} if made is mst else {"workload": Workload((domain.names,))}
            released = made(epsilon=5.0, domain=domain, **changes).release(table)
            assert released.answer(("a",)).shape == (sizes[0],)


def test_what_is_promised_beforehand():
    assert aim().event == Opaque(epsilon=1.0, delta=1e-6)
    parts = mst(adjacency=ReplaceOne()).event.parts
    assert parts[0] == Repeat(Repeat(DiscreteGaussian(parts[0].inner.inner.scale, 0.5), 2), 4)
    assert [part.times for part in parts] == [4, 3, 3]
