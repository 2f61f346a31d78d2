"""Authors: one coin for each person, from trained texts and from others, with and without references."""

import numpy as np
import pytest

from privet.attacks import LiRA
from privet.attacks.shadows import Halves, Sequential, study
from privet.attacks.text import (
    AuthorLoss,
    AuthorRatio,
    Authors,
    AuthorShadow,
    AuthorSplit,
    NGramModel,
    RankHistogram,
    ReferencedAuthors,
    group_by_author,
    leave_out_target,
    run_authors,
    score_curve,
    sequence_records,
)
from privet.attacks.text.authors import rank_shares
from privet.attacks.text.sequence_views import SequenceView, sequences_of
from privet.auditing import OneRun
from privet.errors import InvalidArgument
from privet.scores import References, Scores

WORDS, PEOPLE, EACH = 40, 40, 5


def people(seed=0, count=PEOPLE, each=EACH, length=8):
    """Every author has a taste of their own on top of a common one."""
    draw = np.random.default_rng(seed)
    sequences, owners = [], []
    for person in range(count):
        taste = draw.dirichlet(np.full(WORDS, 0.3))
        for _ in range(each):
            sequences.append(np.concatenate([[0], draw.choice(WORDS, size=length, p=taste)]))
            owners.append(f"{seed}-{person:03d}")
    return Authors(tuple(sequences), np.array(owners))


def area(scores):
    return float((scores.of_members[:, None] > scores.of_others).mean())


def coins(seed=0, count=PEOPLE):
    return np.random.default_rng([7, seed]).permutation(count) < count // 2


def count_texts(authors, members, order=2):
    kept = members[authors.places]
    return NGramModel([authors.sequences[one] for one in np.flatnonzero(kept)], vocabulary=WORDS, order=order)


def test_trained_texts_tell_the_author_and_more_texts_tell_more():
    authors, members = people(), coins()
    target = count_texts(authors, members)
    public = count_texts(people(5), np.ones(PEOPLE, dtype=bool))
    shadow_authors, shadow_members = people(9), coins(9)
    shadow = AuthorShadow(count_texts(shadow_authors, shadow_members), shadow_authors, shadow_members)
    for scores in run_authors(
        [AuthorLoss(), AuthorRatio([public]), RankHistogram([shadow])], target, authors, members
    ):
        assert area(scores) > 0.8, scores.attack
    curve = score_curve(AuthorRatio([public]), target, authors, members, counts=(1, 5), seed=0)
    assert area(curve[5]) >= area(curve[1])


def test_a_model_without_these_authors_shows_nothing():
    authors, members = people(), coins()
    null = count_texts(people(31), np.ones(PEOPLE, dtype=bool))
    for scores in run_authors(
        [AuthorLoss(), AuthorRatio([count_texts(people(5), coins(5))])], null, authors, members
    ):
        assert abs(area(scores) - 0.5) < 0.3  # standard deviation 0.093: false alarm 1e-3


def test_other_texts_of_the_same_author_tell_less_but_something():
    authors, members = people(each=12), coins()
    first = np.arange(len(authors.sequences)) % 12 < 6
    trained = Authors(tuple(authors.sequences[one] for one in np.flatnonzero(first)), authors.owners[first])
    other = Authors(tuple(authors.sequences[one] for one in np.flatnonzero(~first)), authors.owners[~first])
    target = count_texts(trained, members)
    own, rest = (AuthorLoss().run(target, texts, members) for texts in (trained, other))
    assert area(own) > area(rest) > 0.5


def test_the_mean_is_over_all_tokens_of_an_author():
    authors = Authors((np.array([0, 1, 2, 3]), np.array([0, 4]), np.array([0, 1])), np.array(["b", "b", "a"]))
    found = NGramModel([np.array([0, 1])], vocabulary=WORDS).logprobs(authors.sequences)
    values = np.array([3.0, 6.0, 9.0, 2.0, -1.0])
    assert authors.token_means(found, values).tolist() == [-1.0, 5.0]
    shares = rank_shares(found, authors)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert shares[0, 0] == 1.0  # token 1 after 0 is the most likely


def test_a_sample_has_at_most_so_many_texts_and_grows():
    authors = people(each=5)
    one, three = authors.sample(1, seed=3), authors.sample(3, seed=3)
    assert one.counts.tolist() == [1] * PEOPLE
    assert three.counts.tolist() == [3] * PEOPLE
    ids = {id(part) for part in three.sequences}
    assert all(id(part) in ids for part in one.sequences)
    assert authors.sample(99, seed=3).counts.tolist() == [5] * PEOPLE


def references(authors, models=8, trained=None):
    def train(inputs, labels, seed):
        del labels, seed
        return SequenceView(NGramModel(sequences_of(np.asarray(inputs)), vocabulary=WORDS, order=2))

    return study(
        train, sequence_records(authors.sequences), models=models, seed=2, engine=Sequential(), progress=False,
        split=AuthorSplit(authors.owners, trained),
    )  # fmt: skip


def test_models_get_all_texts_of_an_author_or_none():
    authors = people()
    members = AuthorSplit(authors.owners).members(6, len(authors.owners), 0)
    for bits in members:
        shares = np.bincount(authors.places, weights=bits) / authors.counts
        assert set(shares.tolist()) == {0.0, 1.0}
        assert shares.sum() == PEOPLE / 2
    trained = np.arange(len(authors.owners)) % 2 == 0
    assert not AuthorSplit(authors.owners, trained).members(6, len(authors.owners), 0)[:, ~trained].any()


def test_lira_with_the_author_as_the_unit():
    authors, members = people(), coins()
    target = count_texts(authors, members)
    grouped = group_by_author(references(authors), authors, authors)
    assert grouped.members.shape == (8, PEOPLE)
    scores = ReferencedAuthors(LiRA(grouped)).run(target, authors, members)
    assert area(scores) > 0.95
    # The signal of an author is that of the target itself, for a reference that is the target.
    few = authors.sample(2, seed=0)
    grouped = group_by_author(references(authors), authors, few)
    assert len(ReferencedAuthors(LiRA(grouped)).run(target, few, members)) == PEOPLE


def test_the_mean_of_an_author_is_the_same_by_references_and_by_the_view():
    authors = people()
    study_of_all = references(authors, models=2)
    grouped = group_by_author(study_of_all, authors, authors)
    kept = study_of_all.members[0]
    model = NGramModel([authors.sequences[one] for one in np.flatnonzero(kept)], vocabulary=WORDS, order=2)
    found = model.logprobs(authors.sequences)
    own = authors.token_means(found, found.logprobs)
    np.testing.assert_allclose(grouped.signals[0, 0], own - np.log(-np.expm1(own)), rtol=1e-9)


def test_the_complement_of_the_target_shows_the_coins_and_is_left_out():
    """Signals are pure noise, so the truth is AUC ½; with the complement the offline score is far from it."""
    draw, models, count = np.random.default_rng(0), 6, 400
    members = Halves().members(models, count, 0)
    noise = References(draw.normal(size=(models, 1, count)), members)
    target = 0
    # The complement is without every member: a model whose answers differ a little from the others' is enough.
    shifted = References(noise.signals + np.eye(models)[1][:, None, None] * 3.0, members)

    def mean_out(refs):
        out = ~refs.members[:, None, :]
        return -(np.where(out, refs.signals, 0.0).sum(axis=0) / np.maximum(1, out.sum(axis=0)))[0]

    coin = members[target]

    def auc(scores):
        return float((scores[coin][:, None] > scores[~coin]).mean())

    assert abs(auc(mean_out(shifted.pick_models(np.arange(1, models)))) - 0.5) > 0.3
    kept = leave_out_target(shifted, target)
    assert kept.models == models - 2
    assert abs(auc(mean_out(kept)) - 0.5) < 0.12  # four standard deviations


def test_a_one_run_audit_with_coins_on_users():
    """Coins on authors: a model that counts their texts is far from private, one without them shows no ε."""
    authors, members = people(count=80), coins(count=80)
    leaking = AuthorLoss().run(count_texts(authors, members), authors, members)
    assert OneRun().epsilon(leaking, delta=1e-5) > 0.5
    null = count_texts(people(31), np.ones(PEOPLE, dtype=bool)).logprobs(authors.sequences)
    values = AuthorLoss().judge(null, authors)
    found = [OneRun().epsilon(Scores(values, coins(seed, 80)), delta=1e-5) > 0 for seed in range(100, 140)]
    assert sum(found) <= 6  # each at most 5 %: more than six of forty have probability 0.3 %


def test_bad_input_gets_one_sentence_each():
    authors = people()
    with pytest.raises(InvalidArgument, match="at least two authors, got one"):
        Authors((np.array([0, 1]),), np.array(["a"]))
    with pytest.raises(InvalidArgument, match="'owners' must name the author of each"):
        Authors((np.array([0, 1]),), np.array(["a", "b"]))
    with pytest.raises(InvalidArgument, match="'members' must hold authors of both kinds"):
        AuthorShadow(count_texts(authors, coins()), authors, np.ones(PEOPLE, dtype=bool))
    with pytest.raises(InvalidArgument, match="'shadows' must hold at least one"):
        RankHistogram([])
    with pytest.raises(InvalidArgument, match="'references' must hold at least one"):
        AuthorRatio([])
    with pytest.raises(InvalidArgument, match="'target' must be one of the 2"):
        leave_out_target(References(np.zeros((2, 1, 4)), Halves().members(2, 4, 0)), 5)
    with pytest.raises(InvalidArgument, match="other models than the target"):
        leave_out_target(References(np.zeros((2, 1, 4)), Halves().members(2, 4, 0)), 0)
    with pytest.raises(InvalidArgument, match="'asked' must have texts of every author"):
        group_by_author(references(authors, models=2), authors, authors.take(np.arange(5)))
    with pytest.raises(InvalidArgument, match="'counts' must hold numbers"):
        score_curve(AuthorLoss(), count_texts(authors, coins()), authors, coins(), counts=(), seed=0)
