"""Canary exposure against bigram tables, whose every rank is known by enumeration."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from privet.adjacency import AddRemove
from privet.attacks.text import (
    ByteEncoder,
    CanaryExposure,
    bound_by_controls,
    bound_hit_rate,
    bound_mean_exposure,
    compute_blind_exposure,
    draw_secrets,
    extrapolate_exposures,
    find_likeliest,
    rank_in_space,
    score_secrets,
    score_space,
    to_exposures,
)
from privet.attacks.text.token_views import TokenView, check_sequences, summarise_distributions
from privet.auditing import bound_recoveries, measure_recoveries
from privet.canary_formats import CanaryFormat, PlantedCanaries, plant_canaries
from privet.errors import InvalidArgument
from privet.guarantees import Guarantee, PairCurve

DIGITS = np.arange(10)
START = 10


class BigramView(TokenView):
    """ln p of the next token depends on the last one only: a table of tokens × tokens."""

    def __init__(self, logs, context=None):
        self.logs, self._context = np.asarray(logs, dtype=np.float64), context

    @classmethod
    def random(cls, vocabulary, seed, spread=1.0):
        scores = spread * np.random.default_rng(seed).normal(size=(vocabulary, vocabulary))
        return cls(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))

    @property
    def vocabulary(self):
        return self.logs.shape[1]

    @property
    def end(self):
        return None

    @property
    def context(self):
        return self._context

    def logprobs(self, sequences, *, top=0):
        arrays = check_sequences(sequences, self)
        offsets = np.concatenate([[0], np.cumsum([len(array) - 1 for array in arrays])]).astype(np.int64)
        rows = np.concatenate([self.logs[array[:-1]] for array in arrays])
        return summarise_distributions(rows, np.concatenate([a[1:] for a in arrays]), offsets, top=top)

    def next_logits(self, prefixes):
        return self.logs[[array[-1] for array in check_sequences(prefixes, self, least=1)]]


class MemorisingView(BigramView):
    """A bigram table that also knows some sequences: it follows them with probability 1 − 10⁻³."""

    def __init__(self, logs, known):
        super().__init__(logs)
        self.known = [tuple(one) for one in known]

    def next_logits(self, prefixes):
        answer = super().next_logits(prefixes).copy()
        for place, prefix in enumerate(prefixes):
            own = tuple(prefix)
            after = {k[len(own)] for k in self.known if len(k) > len(own) and k[: len(own)] == own}
            if after:
                answer[place] += math.log(1e-3)
                for token in after:
                    answer[place, token] = math.log(0.999 / len(after))
        return answer


def digits(places=4):
    return CanaryFormat(np.array([START]), (DIGITS,) * places)


def enumerate_scores(view, format):
    """ln q of every secret by brute force, in the order of itertools.product."""
    allowed = view.logs[:, format.choices[0]]
    tables = view.logs - np.log(np.exp(allowed).sum(axis=1, keepdims=True))
    scores = []
    for secret in itertools.product(*[place.tolist() for place in format.choices]):
        path = [int(format.prefix[-1]), *secret]
        scores.append(sum(tables[a, b] for a, b in itertools.pairwise(path)))
    return np.array(scores)


def pair(epsilon, delta=0.0):
    return Guarantee(PairCurve(epsilon, delta), AddRemove(), "claim")


# ── formats ──


def test_a_format_writes_and_locates_its_secrets():
    format = CanaryFormat(np.array([9, 9]), (np.array([3, 1]), np.array([5, 4, 7])), np.array([2]))
    space = np.array(list(itertools.product([3, 1], [5, 4, 7])))
    assert format.size == 6
    assert format.bits == pytest.approx(math.log2(6))
    assert format.locate(space).tolist() == list(range(6))
    assert format.write(space[:1])[0].tolist() == [9, 9, 3, 5, 2]


def test_secrets_are_uniform():
    """χ² over 100 secrets; false alarms in 1 of 10⁶ seeds."""
    format = digits(2)
    counts = np.bincount(format.locate(format.draw(20_000, np.random.default_rng(1))), minlength=100)
    assert stats.chisquare(counts).pvalue > 1e-6


def test_text_formats_are_framed_by_the_end_token():
    format = CanaryFormat.of_text(ByteEncoder(), "pin ", end=256, places=2, suffix=".")
    text = format.write(np.array([[48, 57]]))[0]
    assert text.tolist() == [256, *b"pin 09.", 256]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CanaryFormat(np.zeros(0, int), (DIGITS,)), "'prefix' must hold"),
        (lambda: CanaryFormat(np.array([1]), ()), "'choices' must hold"),
        (lambda: CanaryFormat(np.array([1]), (np.array([1, 1]),)), "'choices' must hold"),
        (lambda: CanaryFormat(np.array([-1]), (DIGITS,)), "'prefix' must be tokens"),
        (lambda: CanaryFormat.of_text(ByteEncoder(), "x", end=None, alphabet="äö"), "'alphabet' must be"),
        (lambda: digits().check(np.array([[1, 2]])), "'secrets' must have one row of 4"),
        (lambda: digits().check(np.array([[1, 2, 3, 11]])), "'secrets' must hold tokens of the format"),
        (lambda: digits(20).locate(digits(20).draw(1, np.random.default_rng(0))), "cannot be numbered"),
        (
            lambda: plant_canaries(digits(), count=3, copies=(), generator=np.random.default_rng(0)),
            "'copies'",
        ),
        (lambda: score_space(BigramView.random(8, 0), digits()), "'format' must hold tokens below"),
        (
            lambda: score_space(BigramView(BigramView.random(11, 0).logs, 3), digits()),
            "'format' must fit into",
        ),
        (lambda: extrapolate_exposures(np.zeros(1), np.zeros(1), bits=9.0), "'controls' must hold"),
        (lambda: bound_by_controls(np.array([np.nan]), np.zeros(9), bits=9.0), "must be numbers, got NaN"),
        (lambda: bound_hit_rate(pair(1), rank=11, size=10), "'rank' must not exceed"),
    ],
)
def test_bad_input_gets_one_sentence_with_its_fix(make, message):
    with pytest.raises(InvalidArgument, match=message):
        make()


def test_copies_are_inserted_by_the_coin():
    planted = plant_canaries(digits(), count=40, copies=(1, 4), generator=np.random.default_rng(3))
    texts = [tuple(text) for text in planted.insert_into([np.array([1, 2])] * 7, np.random.default_rng(4))]
    assert len(texts) == 7 + int(planted.copies[planted.coin].sum())
    for secret, copies, coin in zip(planted.secrets, planted.copies, planted.coin, strict=True):
        assert texts.count((START, *secret)) >= int(copies) * int(coin)
    assert repr(planted) == "PlantedCanaries(80 canaries, 200 controls, confidential)"


# ── ranks ──


def test_the_tree_scores_every_secret_as_enumeration_does():
    view, format = BigramView.random(11, 0), digits()
    truth = enumerate_scores(view, format)
    assert score_space(view, format) == pytest.approx(truth, abs=1e-12)
    some = format.draw(50, np.random.default_rng(1))
    assert score_secrets(view, format, some) == pytest.approx(truth[format.locate(some)], abs=1e-12)


def test_ranks_count_ties_against_the_attack():
    flat = BigramView(np.full((11, 11), -math.log(11)))
    found = CanaryExposure().rank(flat, digits(), digits().draw(5, np.random.default_rng(0)))
    assert found.ranks.tolist() == [10_000.0] * 5  # a model without a preference shows nothing
    assert found.exposures.estimates.tolist() == [0.0] * 5


@pytest.mark.parametrize("batch", [1, 7, 64])
def test_best_first_search_meets_secrets_in_order(batch):
    view, format = BigramView.random(11, 5, spread=2.0), digits()
    truth = np.sort(enumerate_scores(view, format))[::-1]
    found = find_likeliest(view, format, 300, batch=batch)
    assert found.scores == pytest.approx(truth[:300], abs=1e-12)
    assert found.rest >= truth[300] - 1e-12
    assert score_secrets(view, format, found.secrets) == pytest.approx(found.scores, abs=1e-12)
    assert found.rank(truth[[0, 10, 299, 2000]]).tolist()[:2] == [1.0, 11.0]
    assert np.isnan(found.rank(truth[[2000]])).all()


def test_search_ends_with_the_whole_space_or_its_budget():
    view, format = BigramView.random(11, 5), digits(2)
    everything = find_likeliest(view, format, 1000)
    assert len(everything.scores) == 100
    assert everything.rest == -np.inf
    cut = find_likeliest(view, digits(5), 1000, nodes=20)
    truth = np.sort(enumerate_scores(view, digits(5)))[::-1]
    assert cut.scores == pytest.approx(truth[: len(cut.scores)], abs=1e-12)
    assert len(cut.scores) < 1000


def test_exposures_by_hand():
    assert to_exposures(np.array([1.0, 2.0, 8.0]), 8).tolist() == [3.0, 2.0, 0.0]
    ranks = np.arange(1, 101)
    assert compute_blind_exposure(100) == pytest.approx(float(to_exposures(ranks, 100).mean()))
    assert compute_blind_exposure(10**6) == pytest.approx(math.log2(math.e), abs=1e-4)  # 1.44 bits
    assert rank_in_space(np.array([0.0, -1.0]), np.array([0.0])).tolist() == [1.0]


def test_controls_have_the_exposure_that_theory_says():
    """Mean of 4000 exponentials over ln 2, standard error 0.023: five of them, one false alarm in 10⁶."""
    view, format = BigramView.random(11, 2), digits(5)
    found = CanaryExposure().rank(view, format, format.draw(4000, np.random.default_rng(7)))
    assert found.exposures.estimates.mean() == pytest.approx(compute_blind_exposure(format.size), abs=0.12)


# ── spaces too large to list ──


def test_intervals_by_draws_cover_the_exact_rank():
    """60 secrets of all ranks × 25 runs at 90 %: each covers in at least 90 %; below 80 % in one of 10⁹ runs
    if intervals were exact. The estimates are near the truth."""
    view, format = BigramView.random(11, 3, spread=1.5), digits()
    scores = score_space(view, format)
    chosen = np.argsort(-scores)[np.unique(np.geomspace(1, 10_000, 60).astype(int) - 1)]
    truth = to_exposures(rank_in_space(scores, scores[chosen]), format.size)
    covered, errors = [], []
    for seed in range(25):
        drawn = draw_secrets(view, format, 500, generator=np.random.default_rng(seed))
        found = drawn.bound(scores[chosen], confidence=0.9)
        covered.append((found.lower <= truth + 1e-9) & (truth <= found.upper + 1e-9))
        errors.append(found.estimates - truth)
    assert np.mean(covered) >= 0.9
    assert np.median(np.abs(errors)) < 0.25
    assert np.max(np.mean(found.upper - found.lower)) < 4


def test_draws_have_the_probabilities_that_they_state():
    """χ² of the drawn scores over 100 secrets, one false alarm in 10⁶; E[1/m] is the size of the space."""
    view, format = BigramView.random(11, 3), digits(2)
    drawn = draw_secrets(view, format, 4000, generator=np.random.default_rng(0))
    space = score_space(view, format)
    assert np.exp(space).sum() == pytest.approx(1)
    for part, law in ((drawn.scores[:2000], np.exp(space)), (drawn.scores[2000:], np.full(100, 0.01))):
        counts = [(np.abs(part - one) < 1e-9).sum() for one in space]
        assert sum(counts) == 2000
        assert stats.chisquare(counts, 2000 * law).pvalue > 1e-6
    weights = 2 / (np.exp(drawn.scores) + 0.01)
    assert abs(weights.mean() - 100) < 6 * weights.std() / math.sqrt(len(weights))


def test_intervals_are_narrow_where_a_few_secrets_have_all_the_weight():
    """A model that knows twenty secrets by heart: ordinary ones are met by the uniform draws."""
    format = digits(5)
    known = format.draw(20, np.random.default_rng(0))
    view = MemorisingView(BigramView.random(11, 1).logs, format.write(known))
    ordinary = format.draw(40, np.random.default_rng(1))
    scores = score_space(view, format)
    own = scores[format.locate(np.concatenate([known, ordinary]))]
    truth = to_exposures(rank_in_space(scores, own), format.size)
    found = draw_secrets(view, format, 2000, generator=np.random.default_rng(2)).bound(own)
    assert np.mean((found.lower <= truth + 1e-9) & (truth <= found.upper + 1e-9)) >= 0.9
    assert np.median(found.upper - found.lower) < 1.0


def test_intervals_do_not_depend_on_whether_the_format_is_expected():
    """A model that rarely writes digits at all: ranks and intervals are those of one that always does."""
    scores = np.random.default_rng(3).normal(size=(12, 12))
    rare = scores.copy()
    rare[:, 10:] += 20.0
    views = [BigramView(one - np.logaddexp.reduce(one, axis=1, keepdims=True)) for one in (scores, rare)]
    own = score_secrets(views[0], digits(), digits().draw(9, np.random.default_rng(0)))
    found = [draw_secrets(one, digits(), 300, generator=np.random.default_rng(0)).bound(own) for one in views]
    assert found[0].lower == pytest.approx(found[1].lower, abs=1e-6)
    assert (found[1].upper - found[1].lower).max() < 5


@pytest.mark.parametrize("law", [stats.norm(), stats.skewnorm(4), stats.t(4), stats.expon()])
def test_intervals_by_controls_cover_whatever_the_law(law):
    """200 intervals at 95 % for each of five tails: one of them covers in fewer than 89 % with probability
    below 10⁻³ if coverage were exactly 95 %."""
    generator, covered = np.random.default_rng(0), []
    tails = np.array([0.5, 0.1, 0.01, 1e-4, 1e-8])
    own, truth = law.isf(tails), np.minimum(-np.log2(tails), 25.0)
    for _ in range(200):
        found = extrapolate_exposures(own, law.rvs(size=200, random_state=generator), bits=25.0)
        covered.append((found.lower <= truth) & (truth <= found.upper))
        assert (found.lower <= found.estimates).all()
        assert (found.estimates <= found.upper).all()
    assert (np.mean(covered, axis=0) >= 0.89).all()


@pytest.mark.parametrize("shape", [-3.0, 0.0, 3.0])
def test_the_extrapolation_finds_the_tail_of_its_own_law(shape):
    law = stats.skewnorm(shape)
    controls = law.rvs(size=50_000, random_state=np.random.default_rng(1))
    for tail in (1e-2, 1e-6, 1e-9):
        found = extrapolate_exposures(np.array([law.isf(tail)]), controls, bits=60.0)
        assert found.estimates[0] == pytest.approx(-math.log2(tail), rel=0.12)


def test_extrapolations_end_at_the_ceiling():
    controls = np.random.default_rng(0).normal(-40, 1, size=200)
    found = extrapolate_exposures(np.array([-0.1]), controls, bits=19.9)  # 40 deviations: 1160 bits
    assert found.estimates[0] == found.upper[0] == 19.9
    equal = extrapolate_exposures(np.array([-1.0]), np.full(200, -1.0), bits=19.9)
    assert equal.estimates[0] < 0.01


# ── the whole attack ──


@pytest.mark.parametrize("largest", [2_000_000, 100])
def test_memorised_canaries_are_found_listed_or_searched(largest):
    format = digits(5)
    planted = plant_canaries(format, count=40, copies=(2,), controls=200, generator=np.random.default_rng(0))
    view = MemorisingView(BigramView.random(11, 1).logs, planted.sequences)
    results = CanaryExposure(hit_rank=40, largest_listed=largest).run(view, planted)
    left_out, trained = results.by_copies
    assert (left_out.copies, trained.copies) == (0, 2)
    assert left_out.canaries == 200 + int((~planted.coin).sum())
    assert trained.mean > 10
    assert left_out.mean < 3
    recoveries = results.recoveries(2)
    assert recoveries.hits[recoveries.inside].all()
    assert recoveries.hits[~recoveries.inside].mean() < 0.02
    assert measure_recoveries(recoveries).leak.lower > 0.7
    assert bound_recoveries(recoveries, delta=0.0).epsilon > 1.5
    order = np.argsort(recoveries.to_scores().values, kind="stable")
    exposures = results.scores(2).values[order]
    assert (np.diff(exposures[recoveries.hits[order]]) >= 0).all()
    with pytest.raises(InvalidArgument, match=r"'copies' must be one of those that were planted, \[2\]"):
        results.recoveries(3)


def test_searched_exposures_agree_with_listed_ones():
    format = digits(5)
    planted = plant_canaries(format, count=30, copies=(1,), generator=np.random.default_rng(5))
    view = BigramView.random(11, 4, spread=1.5)
    listed = CanaryExposure().run(view, planted).found
    searched = CanaryExposure(largest_listed=10, hit_rank=50).run(view, planted).found
    exact = searched.exact
    assert searched.ranks[exact].tolist() == listed.ranks[exact].tolist()
    truth, found = listed.exposures.estimates, searched.exposures
    # 230 intervals at 95 %: fewer than 88 % with probability 10⁻⁵, if they were independent.
    assert np.mean((found.lower <= truth + 1e-9) & (truth <= found.upper + 1e-9)) > 0.88
    assert listed.exact.all()


def test_a_model_that_saw_nothing_shows_no_leak():
    """100 null runs of 60 canaries: ε > 0 in more than 11 with probability below 1 % at a level of 5 %."""
    format, alarms = digits(3), 0
    for seed in range(100):
        planted = plant_canaries(
            format, count=60, copies=(1,), controls=20, generator=np.random.default_rng(seed)
        )
        recoveries = CanaryExposure(hit_rank=300).run(BigramView.random(11, seed), planted).recoveries(1)
        alarms += bound_recoveries(recoveries, delta=0.0).epsilon > 0
    assert alarms <= 11


# ── the law ──


def test_hits_stay_below_the_claim_of_the_group():
    """Randomised response over 1000 secrets, one run of each copy: the best mechanism under pure ε reaches
    the ceiling for one copy, and the group's for k."""
    size = 1000
    for epsilon, copies in ((0.5, 1), (0.5, 4), (2.0, 3)):
        ceiling = bound_hit_rate(pair(epsilon), rank=10, size=size, copies=copies)
        chance = min(math.exp(copies * epsilon) * 10 / size, 1.0)
        assert ceiling <= chance * (1 + 1e-9)
        assert ceiling >= bound_hit_rate(pair(epsilon), rank=10, size=size) * (1 - 1e-12)
    assert bound_hit_rate(pair(0.5), rank=10, size=size) == pytest.approx(math.exp(0.5) / 100)
    assert bound_hit_rate(pair(0.5), rank=10, size=size, copies=4) == pytest.approx(math.exp(2) / 100)


def test_the_mean_exposure_lies_between_blind_and_everything():
    size = 10**6
    blind, nothing = compute_blind_exposure(size), math.log2(size)
    values = [bound_mean_exposure(pair(epsilon), size=size) for epsilon in (1e-9, 0.5, 2.0, 8.0)]
    assert blind <= values[0] <= blind * 1.1
    assert values == sorted(values)
    assert values[-1] < nothing
    assert bound_mean_exposure(pair(0.5), size=size, copies=4) == pytest.approx(values[2], rel=0.05)
    assert bound_mean_exposure(pair(60.0), size=size) == pytest.approx(nothing, abs=0.01)
    # Exactly, for small spaces: Σ tpr(r/|R|)(log₂(r+1) − log₂ r) ≤ the bound.
    exact = sum(
        min(math.e * r / 64, 1 - (1 - r / 64) / math.e) * math.log2((r + 1) / r) for r in range(1, 64)
    )
    bound = bound_mean_exposure(pair(1.0), size=64, per_bit=64)
    assert exact <= bound <= exact * 1.05


def test_coins_and_secrets_must_fit():
    planted = plant_canaries(digits(), count=4, copies=(1,), generator=np.random.default_rng(0))
    with pytest.raises(InvalidArgument, match="'copies' and 'coin' must have one entry"):
        PlantedCanaries(planted.format, planted.secrets, planted.copies[:2], planted.coin, planted.controls)
