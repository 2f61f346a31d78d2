"""Decoding, extraction by prompts and by sampling, against tables whose every probability is known."""

import itertools
import math
from decimal import Decimal, getcontext

import numpy as np
import pytest
from scipy import stats

from privet.attacks.text import (
    Decoding,
    LeakCurve,
    NgramIndex,
    PromptedExtraction,
    SampledExtraction,
    are_near_copies,
    compare_at_equal_loss,
    compute_extraction_chances,
    count_tries,
    drop_near_copies,
    find_passages,
    generate,
    score_continuations,
)
from privet.attacks.text.token_views import TokenView, check_sequences, summarise_distributions
from privet.auditing import bound_recoveries, measure_recoveries
from privet.errors import InvalidArgument

DECODINGS = [
    Decoding(),
    Decoding(temperature=0.5),
    Decoding(temperature=2.0, top_k=3),
    Decoding(top_p=0.8),
    Decoding(temperature=0.7, top_k=4, top_p=0.9),
    Decoding(temperature=0),
]


class TableView(TokenView):
    """ln p of the next token by a function of the prefix."""

    def __init__(self, vocabulary, table, *, end=None, context=None):
        self._vocabulary, self.table, self._end, self._context = vocabulary, table, end, context

    @classmethod
    def bigram(cls, vocabulary=6, seed=0, **options):
        scores = 1.5 * np.random.default_rng(seed).normal(size=(vocabulary, vocabulary))
        logs = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
        return cls(vocabulary, lambda prefix: logs[prefix[-1]], **options)

    @classmethod
    def memorising(cls, vocabulary, texts, *, seed=0, sure=0.98, **options):
        """A bigram table that continues the last three tokens as in a known text."""
        plain = cls.bigram(vocabulary, seed)
        after = {}
        for text in texts:
            for place in range(3, len(text)):
                after.setdefault(tuple(text[place - 3 : place]), int(text[place]))

        def table(prefix):
            logs, known = plain.table(prefix), after.get(tuple(prefix[-3:]))
            if known is None:
                return logs
            logs = logs + math.log(1 - sure)
            logs[known] = np.logaddexp(logs[known], math.log(sure))
            return logs

        return cls(vocabulary, table, **options)

    @property
    def vocabulary(self):
        return self._vocabulary

    @property
    def end(self):
        return self._end

    @property
    def context(self):
        return self._context

    def logprobs(self, sequences, *, top=0):
        arrays = check_sequences(sequences, self)
        offsets = np.concatenate([[0], np.cumsum([len(array) - 1 for array in arrays])]).astype(np.int64)
        rows = np.stack([self.table(array[:place]) for array in arrays for place in range(1, len(array))])
        return summarise_distributions(rows, np.concatenate([a[1:] for a in arrays]), offsets, top=top)

    def next_logits(self, prefixes):
        return np.stack([self.table(array) for array in check_sequences(prefixes, self, least=1)])


def adjust_plainly(logs, decoding):
    """Temperature, top-k and top-p of one row, on probabilities, written out."""
    p = np.exp(np.asarray(logs))
    if decoding.temperature == 0:
        return (np.arange(len(p)) == np.argmax(p)).astype(float)
    p = p ** (1 / decoding.temperature)
    p /= p.sum()
    order = sorted(range(len(p)), key=lambda token: -p[token])
    if decoding.top_k is not None:
        p[order[decoding.top_k :]] = 0
        p /= p.sum()
    if decoding.top_p is not None:
        total, kept = 0.0, []
        for token in order:
            if total >= decoding.top_p:
                break
            kept.append(token)
            total += p[token]
        p[[token for token in order if token not in kept]] = 0
        p /= p.sum()
    return p


# ── decoding ──


@pytest.mark.parametrize("decoding", DECODINGS, ids=lambda decoding: decoding.words)
def test_decodings_are_the_plain_formulas(decoding):
    scores = np.random.default_rng(0).normal(size=(40, 9)) * 2
    logs = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
    truth = np.stack([adjust_plainly(row, decoding) for row in logs])
    assert np.exp(decoding.adjust(logs)) == pytest.approx(truth, abs=1e-12)


@pytest.mark.parametrize("decoding", DECODINGS, ids=lambda decoding: decoding.words)
def test_one_pass_scores_a_continuation_as_step_by_step(decoding):
    view = TableView.bigram()
    generator = np.random.default_rng(1)
    prompts = [generator.integers(0, 6, size=size) for size in (1, 3, 5, 2)]
    texts = [generator.integers(0, 6, size=size) for size in (2, 3, 1, 4)]
    texts[0] = generate(view, prompts[:1], 2, decoding=Decoding(temperature=0), generator=generator)[0]
    truth = []
    for prompt, text in zip(prompts, texts, strict=True):
        chance, prefix = 1.0, prompt
        for token in text:
            chance *= adjust_plainly(view.table(prefix), decoding)[token]
            prefix = np.append(prefix, token)
        truth.append(chance)
    found = score_continuations(view, prompts, texts, decoding=decoding)
    assert np.exp(found) == pytest.approx(np.array(truth), abs=1e-12)
    assert found[0] > -np.inf


def test_all_continuations_sum_to_one():
    view, decoding = TableView.bigram(4), Decoding(temperature=1.3, top_p=0.9)
    texts = [np.array(text) for text in itertools.product(range(4), repeat=3)]
    found = score_continuations(view, [np.array([0])] * len(texts), texts, decoding=decoding)
    assert np.exp(found).sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("decoding", [Decoding(), Decoding(temperature=0.7, top_k=3)], ids=["plain", "cut"])
def test_samples_have_the_probabilities_that_are_scored(decoding):
    """χ² of 4000 samples over 16 texts or fewer; one false alarm in 10⁶ seeds."""
    view = TableView.bigram(4, 3)
    texts = [np.array(text) for text in itertools.product(range(4), repeat=2)]
    expected = np.exp(score_continuations(view, [np.array([1])] * 16, texts, decoding=decoding))
    drawn = generate(view, [np.array([1])] * 4000, 2, decoding=decoding, generator=np.random.default_rng(0))
    counts = np.bincount([4 * a + b for a, b in drawn], minlength=16)
    assert (counts[expected == 0] == 0).all()
    able = expected > 0
    assert stats.chisquare(counts[able], 4000 * expected[able] / expected[able].sum()).pvalue > 1e-6


def test_long_continuations_keep_their_probability():
    view = TableView(2, lambda _: np.log([0.999, 0.001]))
    text = np.ones(500, dtype=np.int64)
    found = score_continuations(view, [np.array([0])], [text], decoding=Decoding())
    assert found[0] == pytest.approx(500 * math.log(0.001))  # e^−3454, far below float64


def test_texts_end_and_windows_slide():
    view = TableView(
        3, lambda prefix: np.log([0.02, 0.96, 0.02] if len(prefix) < 3 else [0.02, 0.02, 0.96]), end=2
    )
    greedy = Decoding(temperature=0)
    texts = generate(view, [np.array([0])] * 2, 9, decoding=greedy, generator=np.random.default_rng(0))
    assert [text.tolist() for text in texts] == [[1, 1, 2]] * 2
    short = TableView.bigram(6, context=2)
    plain = TableView.bigram(6)
    same = [
        generate(one, [np.array([3])], 8, decoding=greedy, generator=np.random.default_rng(0))[0].tolist()
        for one in (short, plain)
    ]
    assert same[0] == same[1]
    assert len(same[0]) == 8


def test_seeds_decide_everything():
    view = TableView.bigram()
    one, two, other = (
        generate(view, [np.array([0])] * 5, 6, decoding=Decoding(), generator=np.random.default_rng(seed))
        for seed in (3, 3, 4)
    )
    assert [a.tolist() for a in one] == [a.tolist() for a in two]
    assert [a.tolist() for a in one] != [a.tolist() for a in other]


# ── chances ──


@pytest.mark.parametrize(
    ("p", "n"),
    [
        ("1e-17", "1e18"),
        ("1e-300", "1e299"),
        ("0.5", "1"),
        ("0.499", "7"),
        ("0.01", "69"),
        ("1e-9", "100"),
        ("0.999999", "2"),
        ("0.7", "3"),
    ],
)
def test_chances_against_sixty_digits(p, n):
    """1 − (1 − p)ⁿ by decimal arithmetic; the naive formula gives 0.0 for the first two."""
    getcontext().prec = 400
    truth = float(1 - ((1 - Decimal(p)).ln() * Decimal(n)).exp())
    found = compute_extraction_chances(np.array([math.log(float(p))]), float(n))[0]
    assert found == pytest.approx(truth, rel=1e-13 * max(1, abs(math.log(float(p)))))


def test_the_golden_chance():
    assert compute_extraction_chances(np.log([1e-17]), 1e18)[0] == pytest.approx(
        0.9999546000702375, rel=1e-12
    )
    assert compute_extraction_chances(np.array([-np.inf, 0.0]), 10).tolist() == [0.0, 1.0]


def test_tries_are_the_fewest_that_suffice():
    logs = np.log(np.array([0.9, 0.5, 0.1, 0.01, 1e-6, 1e-12]))
    for chance in (0.1, 0.5, 0.99):
        tries = count_tries(logs, chance)
        for log, count in zip(logs, tries, strict=True):
            assert compute_extraction_chances(np.array([log]), count)[0] >= chance * (1 - 1e-11)
            if count > 1:
                assert compute_extraction_chances(np.array([log]), count - 1)[0] < chance
    assert count_tries(np.array([-np.inf, 0.0]), 0.5).tolist() == [np.inf, 1.0]


# ── passages ──


def test_templates_are_nobodys():
    footer = [7, 7, 7, 7]
    mails = [
        np.array([1, 2, 3, 4, 5, 6, *footer]),
        np.array([*footer, 9, 8, 1, 9, 8, 2]),
        np.array([*footer, 5, 5]),
    ]
    owners = np.array([0, 1, 1])
    found = find_passages(mails, prompt=1, length=3, owners=owners, elsewhere=[np.array([0, 2, 3, 4])])
    assert found.source.tolist() == [0, 1, 2]
    assert found.continuations[0].tolist() == [3, 4, 5]  # 2 3 4 is in mail that was never trained on
    assert found.prompts[0].tolist() == [2]
    assert found.continuations[1].tolist() == [7, 7, 9]  # 7 7 7 is everybody's
    everything = find_passages(mails, prompt=1, length=3, owners=owners, shared=True)
    assert everything.continuations[1].tolist() == [7, 7, 7]
    assert repr(found) == "Passages(3, confidential)"
    begun = find_passages(
        mails, prompt=1, length=3, owners=owners, elsewhere=[np.array([0, 2, 3, 4])], from_start=True
    )
    assert begun.prompts[0].tolist() == [1, 2]
    assert begun.continuations[0].tolist() == found.continuations[0].tolist()


def test_unknown_words_are_copies_of_nothing():
    texts = [np.array([1, 2, 0, 3, 4, 5, 6]), np.array([7, 0, 0, 0, 0])]
    index = NgramIndex(texts, length=3, excluded=[0])
    assert [run is None for run in index.runs(texts[0])] == [True, True, True, False, False]
    found = find_passages(texts, prompt=1, length=3, excluded=[0])
    assert (found.source.tolist(), found.continuations[0].tolist()) == ([0], [3, 4, 5])


def test_an_owner_shares_nothing_with_themselves():
    mails = [np.array([1, 2, 3, 4]), np.array([0, 1, 2, 3])]
    assert NgramIndex(mails, length=3).owner_of(np.array([1, 2, 3])) == -1
    assert NgramIndex(mails, length=3, owners=np.array([5, 5])).owner_of(np.array([1, 2, 3])) == 5


def test_near_copies_are_counted_once():
    texts = [
        np.arange(20),
        np.arange(1, 21),
        np.arange(40, 60),
        np.arange(12, 32),
        np.array([3]),
        np.array([3]),
    ]
    assert drop_near_copies(texts, range(6)).tolist() == [True, False, True, True, True, False]
    assert not are_near_copies(texts[2], texts[0])


# ── attacks ──


def mails(count=80, length=24, vocabulary=50, seed=0):
    generator = np.random.default_rng(seed)
    return [generator.integers(1, vocabulary, size=length) for _ in range(count)]


def test_prompts_extract_what_was_memorised_and_nothing_else():
    texts, members = mails(), np.random.default_rng(1).integers(0, 2, size=80).astype(bool)
    view = TableView.memorising(50, [text for text, inside in zip(texts, members, strict=True) if inside])
    passages = find_passages(texts, prompt=4, length=8)
    inside = members[passages.source]
    for attack in (PromptedExtraction(1, 0.5, Decoding(temperature=0)), PromptedExtraction(100, 0.5)):
        found = attack.run(view, passages, inside, decode=str, shown=3)
        measured = measure_recoveries(found)
        assert measured.success.value > 0.95
        assert measured.baseline.value == 0
        assert bound_recoveries(found, delta=0.0).epsilon > 1.5
        assert len(found.exhibits) == 3
        assert found.exhibits[0].truth == found.exhibits[0].recovered
    assert found.criterion == "(100, 0.5)-discoverable under plain sampling"


def test_discoverable_is_what_repeated_sampling_finds():
    """A passage of p = 0.02 in 50 tries: 400 repetitions find it in 63.6 % ± 12 (five standard errors)."""
    view = TableView(4, lambda _: np.log([0.02, 0.5, 0.4, 0.08]))
    chance = compute_extraction_chances(np.log([0.02]), 50)[0]
    drawn = generate(
        view, [np.array([1])] * 20_000, 1, decoding=Decoding(), generator=np.random.default_rng(2)
    )
    found = (np.concatenate(drawn).reshape(400, 50) == 0).any(axis=1).mean()
    assert found == pytest.approx(chance, abs=0.12)


def test_a_model_that_saw_no_mail_shows_no_extraction():
    """100 null runs: ε > 0 in more than 11 with probability below 1 % at a level of 5 %."""
    view, alarms = TableView.bigram(8, 5), 0
    for seed in range(100):
        passages = find_passages(mails(60, 8, 8, seed), prompt=1, length=3, shared=True)
        coin = np.random.default_rng(seed).integers(0, 2, size=60).astype(bool)
        attack = PromptedExtraction(20, 0.5)
        alarms += bound_recoveries(attack.run(view, passages, coin), delta=0.0).epsilon > 0
    assert alarms <= 11


def test_sampling_finds_personal_runs_of_members():
    texts, members = mails(30, 16), np.arange(30) % 2 == 0
    texts = [np.concatenate([[0], text]) for text in texts]
    view = TableView.memorising(50, [t for t, inside in zip(texts, members, strict=True) if inside], end=0)
    attack = SampledExtraction(samples=60, length=14, match=6, decoding=Decoding(top_k=40))
    prompts = [text[:4] for text in texts]
    found = attack.run(view, texts, members, prompts=prompts)
    measured = measure_recoveries(found.recoveries)
    assert measured.success.value > 0.9
    assert measured.baseline.value == 0
    assert found.precision(20) > found.verified.mean()
    assert found.verified.sum() > (found.verified & found.without_copies).sum()  # each prompt was used twice
    assert found.precision(10, personal=True, copies=False) > 0.9
    # What is also written elsewhere is a template.
    shared = attack.run(view, texts, members, prompts=prompts, elsewhere=texts)
    assert not shared.recoveries.hits.any()
    assert not shared.personal.any()
    assert shared.verified.tolist() == found.verified.tolist()
    owned = attack.run(view, texts, members, prompts=prompts, owners=np.arange(30) // 2)
    assert owned.personal.sum() == found.personal.sum()


def test_models_are_compared_at_equal_cross_entropy():
    plain = LeakCurve(np.array([5.0, 3.0, 2.0, 1.5, 1.8]), np.array([1.4, 1.5, 3.5, 12.0, 18.0]))
    private = LeakCurve(np.array([6.0, 3.0, 2.5, 1.0]), np.array([1.4, 1.4, 1.5, 1.6]))
    above, three, middle, below = compare_at_equal_loss(private, plain)
    assert (above.plain, above.removed, below.plain) == (None, None, None)
    assert three.plain == 1.5
    assert middle.removed == pytest.approx(1.0)  # 2.5 bits halfway between 1.5 and 3.5
    assert plain.at_loss(1.8) == pytest.approx(3.5 + 0.4 * 8.5)  # where it first had it, not at its end


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Decoding(temperature=-1), "'temperature'"),
        (lambda: Decoding(top_k=0), "'top_k'"),
        (lambda: Decoding(top_p=0.0), r"'top_p' must lie in \(0, 1\]"),
        (lambda: Decoding(top_p=1.5), "'top_p'"),
        (lambda: compute_extraction_chances(np.array([0.1]), 5), "'log_probabilities' must be"),
        (lambda: compute_extraction_chances(np.array([-1.0]), math.inf), "'tries' must be"),
        (lambda: count_tries(np.array([-1.0]), 1.0), "'chance'"),
        (
            lambda: score_continuations(TableView.bigram(), [np.array([1])], [], decoding=Decoding()),
            "'continuations' must hold",
        ),
        (
            lambda: score_continuations(
                TableView.bigram(), [np.zeros(0, int)], [np.array([1])], decoding=Decoding()
            ),
            "'prompts' must hold",
        ),
        (lambda: NgramIndex([np.arange(3)], length=2, owners=np.array([-1])), "'owners' must hold"),
        (
            lambda: SampledExtraction().sample(TableView.bigram()),
            "'prompts' must be given for a model without",
        ),
        (lambda: SampledExtraction(match=9, length=3), "'length'"),
        (
            lambda: SampledExtraction().run(TableView.bigram(), [np.arange(3)], np.array([True, False])),
            "'members' must say",
        ),
        (lambda: LeakCurve(np.array([1.0]), np.array([1.0, 2.0])), "'losses' and 'leaks' must have"),
        (lambda: LeakCurve(np.array([np.nan]), np.array([1.0])), "must be finite"),
    ],
)
def test_bad_input_gets_one_sentence_with_its_fix(make, message):
    with pytest.raises(InvalidArgument, match=message):
        make()


def test_members_are_one_for_each_passage():
    passages = find_passages(mails(4), prompt=2, length=4)
    with pytest.raises(InvalidArgument, match="'members' must say for each of 4 passages"):
        PromptedExtraction().run(TableView.bigram(50), passages, np.array([True]))
