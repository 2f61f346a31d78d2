"""Which sentences leak: the signals are the papers' formulas, the game is blind, and references work over sequences."""

import zlib

import numpy as np
import pytest

from privet.attacks import LiRA, OfflineLiRA
from privet.attacks.shadows import Sequential, study
from privet.attacks.text import (
    ByteEncoder,
    MinK,
    MinKPlusPlus,
    Neighbourhood,
    NGramModel,
    ReferencedSequences,
    ReferenceRatio,
    SequenceLoss,
    Texts,
    ZlibRatio,
    min_k,
    min_k_plus_plus,
    run_together,
    sequence_records,
)
from privet.attacks.text.sequence_views import SequenceView, sequences_of
from privet.attacks.text.token_views import TokenLogProbs
from privet.auditing import OneRun
from privet.errors import InvalidArgument
from privet.scores import Challenge, Scores

WORDS = 30


def chain(seed=0, count=40, length=12):
    """Sequences of one Markov chain, so that members and others are alike."""
    draw = np.random.default_rng(seed)
    step = np.random.default_rng(99).dirichlet(np.full(WORDS, 0.2), size=WORDS)
    out = []
    for _ in range(count):
        tokens = [0]
        for _ in range(int(draw.integers(length // 2, length))):
            tokens.append(int(draw.choice(WORDS, p=step[tokens[-1]])))
        out.append(np.array(tokens))
    return out


def texts_of(sequences):
    return Texts(tuple(" ".join(map(str, one)) for one in sequences), tuple(sequences))


def area(scores):
    members, others = scores.of_members, scores.of_others
    return float((members[:, None] > others).mean() + 0.5 * (members[:, None] == others).mean())


def known(logs, means=None, deviations=None, offsets=(0, 3, 5)):
    logs = np.array(logs)
    ones = np.ones(len(logs))
    return TokenLogProbs(
        np.zeros(len(logs), dtype=np.int64),
        logs,
        np.ones(len(logs), dtype=np.int64),
        -2.0 * ones if means is None else np.array(means),
        ones if deviations is None else np.array(deviations),
        np.array(offsets),
    )


def test_min_k_takes_the_lowest_share_and_at_least_one_token():
    found = known([-1.0, -5.0, -3.0, -2.0, -4.0])
    np.testing.assert_allclose(min_k(found, 0.7), [-4.0, -4.0])  # ⌊2.1⌋ = 2 tokens of three, ⌊1.4⌋ = 1 of two
    np.testing.assert_allclose(min_k(found, 0.01), [-5.0, -4.0])
    np.testing.assert_allclose(min_k(found, 1.0), [-3.0, -3.0])


def test_min_k_plus_plus_is_in_units_of_the_model():
    found = known([-1.0, -5.0, -3.0, -2.0, -4.0], means=[-1, -3, -1, -2, -2], deviations=[1, 0.5, 4, 1, 2])
    np.testing.assert_allclose(min_k_plus_plus(found, 0.3), [-4.0, -1.0])
    certain = known([-1e-9, -1e-9], means=[-1e-9, -1e-9], deviations=[0.0, 0.0], offsets=(0, 2))
    assert min_k_plus_plus(certain)[0] == 0.0


def test_zlib_and_reference_ratios_are_their_formulas():
    sequences = chain()
    texts, model = texts_of(sequences), NGramModel(sequences[:20], vocabulary=WORDS)
    other = NGramModel(chain(5), vocabulary=WORDS, order=2)
    members = np.arange(40) < 20
    found, reference = model.logprobs(sequences), other.logprobs(sequences)
    by_zlib = ZlibRatio().run(model, texts, members).values
    by_reference = ReferenceRatio([other]).run(model, texts, members).values
    for one in (0, 7, 33):
        size = len(zlib.compress(texts.texts[one].encode()))
        assert by_zlib[one] == pytest.approx(found.of(one).logprobs.sum() / size)
        assert by_reference[one] == pytest.approx(
            found.of(one).logprobs.mean() - reference.of(one).logprobs.mean()
        )


def attacks():
    public = NGramModel(chain(7, 80), vocabulary=WORDS, order=2)
    return [
        SequenceLoss(), ZlibRatio(), MinK(), MinKPlusPlus(), ReferenceRatio([public]), Neighbourhood(public, neighbours=3),
    ]  # fmt: skip


def test_each_attack_finds_members_of_a_model_that_counts_and_nothing_where_there_are_none():
    sequences, members = chain(1, 120), np.arange(120) % 2 == 0
    texts = texts_of(sequences)
    leaking = NGramModel(
        [one for one, is_in in zip(sequences, members, strict=True) if is_in], vocabulary=WORDS
    )
    null = NGramModel(chain(3, 60), vocabulary=WORDS)
    for found, blind in zip(
        run_together(attacks(), leaking, texts, members),
        run_together(attacks(), null, texts, members),
        strict=True,
    ):
        assert area(found) > 0.75, found.attack
        # 60 against 60: standard deviation 0.053; five attacks or six, false alarm below 1e-3
        assert abs(area(blind) - 0.5) < 0.2, blind.attack


def test_the_order_of_texts_does_not_matter_and_one_pass_is_each_pass():
    sequences, members = chain(2, 30), np.arange(30) % 2 == 0
    texts, model = texts_of(sequences), NGramModel(sequences[:15], vocabulary=WORDS)
    order = np.random.default_rng(0).permutation(30)
    together = run_together(attacks(), model, texts, members)
    shuffled = run_together(attacks(), model, texts.take(order), members[order])
    for attack, straight, other in zip(attacks(), together, shuffled, strict=True):
        np.testing.assert_allclose(straight.values[order], other.values, rtol=1e-12)
        np.testing.assert_array_equal(attack.run(model, texts, members).values, straight.values)


def test_coins_on_sentences_give_no_epsilon_where_the_model_saw_none():
    sequences = chain(21, 80)
    texts, null = texts_of(sequences), NGramModel(chain(3, 60), vocabulary=WORDS)
    found = null.logprobs(sequences)
    for attack in attacks():
        values = attack.judge(found, texts, null)
        above = [
            OneRun().epsilon(
                Scores(values, np.random.default_rng([8, seed]).permutation(80) < 40), delta=1e-5
            )
            > 0
            for seed in range(40)
        ]
        assert sum(above) <= 7, (
            attack.name
        )  # each at most 5 %: more than seven of forty have probability 0.1 %


def test_neighbours_differ_at_some_places_and_keep_the_ends():
    model = NGramModel(chain(), vocabulary=WORDS, end=0)
    sequence = np.concatenate([chain(4, 1, 30)[0], [0]])
    for other in Neighbourhood(model, neighbours=5, swaps=0.3)._neighbours(sequence, model):
        differing = np.flatnonzero(other != sequence)
        assert len(differing) == round(0.3 * (len(sequence) - 2))
        assert other[0] == sequence[0]
        assert other[-1] == sequence[-1]


def test_a_counting_model_gives_probabilities_that_add_up_to_one():
    model = NGramModel(chain(), vocabulary=WORDS, order=3)
    logs = model.next_logits([np.array([0]), np.array([0, 3, 4]), np.array([29, 29])])
    np.testing.assert_allclose(np.exp(logs).sum(axis=1), 1.0)
    sequences = chain(8, 3)
    found = model.logprobs(sequences, top=2)
    for one, sequence in enumerate(sequences):
        row = model.next_logits([sequence[:2]])[0]
        assert found.of(one).logprobs[1] == pytest.approx(row[sequence[2]])
        assert found.of(one).top_logprobs[1, 0] == pytest.approx(row.max())


def test_records_of_sequences_keep_their_identity_among_others():
    sequences = chain()
    whole, part = sequence_records(sequences), sequence_records(sequences[:3])
    np.testing.assert_array_equal(whole.hashes[:3], part.hashes)
    for straight, back in zip(sequences, sequences_of(whole.inputs), strict=True):
        np.testing.assert_array_equal(straight, back)


def test_the_confidence_of_a_sequence_is_its_inverse_perplexity():
    sequences = chain()
    model = NGramModel(sequences, vocabulary=WORDS)
    confidences = SequenceView(model).confidences(sequence_records(sequences).inputs)
    perplexity = np.exp(-model.logprobs(sequences).of(4).logprobs.mean())
    assert confidences[4, 1] == pytest.approx(1.0 / perplexity)
    assert confidences[4].sum() == pytest.approx(1.0)


class Counting:
    """The recipe of a model that counts, as a plain function."""

    def __call__(self, inputs, labels, seed):
        del labels, seed
        return SequenceView(NGramModel(sequences_of(np.asarray(inputs)), vocabulary=WORDS, order=2))


def test_lira_over_sequences_beats_the_loss():
    sequences = chain(11, 160)
    records, members = sequence_records(sequences), np.random.default_rng(5).random(160) < 0.5
    references = study(Counting(), records, models=8, seed=1, engine=Sequential(), progress=False)
    target = NGramModel([sequences[one] for one in np.flatnonzero(members)], vocabulary=WORDS, order=2)
    texts = texts_of(sequences)
    loss, online, offline = run_together(
        [SequenceLoss(), ReferencedSequences(LiRA(references)), ReferencedSequences(OfflineLiRA(references))],
        target,
        texts,
        members,
    )
    assert online.attack == "LiRA over sequences"
    assert area(online) > area(loss) + 0.02
    assert area(offline) > area(loss)
    # The plain attack on records gives the same scores, and so does a part of the texts.
    plain = LiRA(references).run(SequenceView(target), Challenge(records, members))
    np.testing.assert_allclose(plain.values, online.values)
    some = np.arange(160) % 3 == 0
    part = ReferencedSequences(OfflineLiRA(references.align(sequence_records(texts.take(some).sequences))))
    assert len(part.run(target, texts.take(some), members[some])) == some.sum()


def test_bad_input_gets_one_sentence_each():
    sequences = chain(0, 4)
    texts, model = texts_of(sequences), NGramModel(sequences, vocabulary=WORDS)
    with pytest.raises(InvalidArgument, match="'texts' must have one sequence each"):
        Texts((), ())
    with pytest.raises(InvalidArgument, match="'references' must hold at least one model"):
        ReferenceRatio([])
    with pytest.raises(InvalidArgument, match="'share' must be above 0"):
        MinK(0.0)
    with pytest.raises(InvalidArgument, match="'members' must hold both sides"):
        SequenceLoss().run(model, texts, np.ones(4, dtype=bool))
    with pytest.raises(InvalidArgument, match="one entry for each of 4 records"):
        SequenceLoss().run(model, texts, np.array([True, False]))
    with pytest.raises(InvalidArgument, match="which are those of the model"):
        ReferenceRatio([NGramModel([np.array([0, 1])], vocabulary=2)]).run(
            model, texts, np.array([True, False, True, False])
        )
    with pytest.raises(InvalidArgument, match="'records' must be sequences"):
        SequenceView(model).log_confidences(np.zeros((2, 3)))


def test_a_cut_text_is_what_the_model_read():
    texts = Texts.encode(ByteEncoder(), ["abcdef", "ab"], end=256, longest=4)
    assert texts.texts == ("abc", "ab")
    assert [len(one) for one in texts.sequences] == [4, 4]
