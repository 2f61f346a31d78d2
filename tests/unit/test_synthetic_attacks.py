"""Attacks on synthetic tables: mixed distances, predicates, edge cases, and one sentence for each bad input."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest

from privet.attacks.synthetic import (
    DensityRatio,
    ExactCopies,
    Inference,
    KernelDensity,
    LearntGuess,
    Linkability,
    NearestGuess,
    NearestRecord,
    NeighborDensity,
    ShadowGenerators,
    SinglingOut,
    TreeDensity,
    attack_synthetic,
    gower,
    name_members,
)
from privet.attacks.synthetic.game import MOST_COLUMNS, draw_game
from privet.attacks.synthetic.gower import distance_blocks, nearest_rows
from privet.attacks.synthetic.predicates import TableValues, make_multivariate, make_univariate
from privet.attacks.synthetic.shadow_generators import to_arrays
from privet.errors import InvalidArgument
from privet.published_tables import PublishedTable
from privet.scores import Scores

WORDS = np.array(["ash", "beech", "oak", "yew"], dtype=object)


def people(count, seed, missing=0.1):
    """Mixed columns: two numbers, a text, a date, with missing values in each."""
    generator = np.random.default_rng(seed)
    columns = {
        "height": np.round(generator.normal(170, 10, count), 1),
        "children": generator.integers(0, 4, count).astype(float),
        "tree": WORDS[generator.integers(0, 4, count)],
        "birth": np.datetime64("1950-01-01") + generator.integers(0, 20_000, count),
    }
    for values in columns.values():
        gaps = generator.random(count) < missing
        if values.dtype.kind == "M":
            values[gaps] = np.datetime64("NaT")
        else:
            values[gaps] = None if values.dtype == object else np.nan
    return pd.DataFrame(columns)


def tables(count=60, seed=0):
    return tuple(PublishedTable.of(people(count, seed + part)) for part in range(3))


def brute_force_gower(rows, searched):
    """By its definition, one pair after the other."""
    columns = rows.columns
    ranges = {
        name: float((searched[name].max() - searched[name].min()) / np.timedelta64(1, "D"))
        if name == "birth"
        else float(searched[name].max() - searched[name].min())
        for name in columns
        if name != "tree"
    }
    answer = np.zeros((len(rows), len(searched)))
    for i, (_, a) in enumerate(rows.iterrows()):
        for j, (_, b) in enumerate(searched.iterrows()):
            for name in columns:
                if pd.isna(a[name]) or pd.isna(b[name]):
                    answer[i, j] += pd.isna(a[name]) != pd.isna(b[name])
                elif name == "tree":
                    answer[i, j] += a[name] != b[name]
                else:
                    gap = abs(a[name] - b[name])
                    gap = gap / pd.Timedelta(days=1) if name == "birth" else gap
                    answer[i, j] += min(gap / ranges[name], 1.0)
    return answer / len(columns)


def stack(one, other):
    one, other = PublishedTable.of(one), PublishedTable.of(other)
    both = one.below(other)
    return both.take(np.arange(len(one))), both.take(np.arange(len(one), len(both)))


# ---- distances


def test_gower_is_its_definition_on_mixed_columns_with_missing_values():
    frames = people(9, 0, 0.2), people(12, 1, 0.2)
    rows, searched = stack(*frames)
    (block,) = distance_blocks(rows, searched, rows.names)
    np.testing.assert_allclose(block.distances, brute_force_gower(*frames), atol=1e-6)


def test_blocks_do_not_change_the_distances(monkeypatch):
    rows, searched = stack(people(30, 0), people(20, 1))
    whole = nearest_rows(rows, searched, rows.names, 3)
    monkeypatch.setattr(gower, "_BLOCK_BYTES", 4 * 20 * 7)  # seven rows at a time
    assert max(len(block.distances) for block in distance_blocks(rows, searched, rows.names)) == 7
    parts = nearest_rows(rows, searched, rows.names, 3)
    np.testing.assert_array_equal(whole.distances, parts.distances)
    np.testing.assert_array_equal(whole.places, parts.places)


def test_no_block_is_larger_than_its_limit(monkeypatch):
    monkeypatch.setattr(gower, "_BLOCK_BYTES", 4000)
    rows, searched = stack(people(50, 0), people(100, 1))
    assert all(block.distances.nbytes <= 4000 for block in distance_blocks(rows, searched, rows.names))


def test_a_row_is_at_distance_0_from_itself_and_from_nothing_else():
    frame = people(40, 3)
    rows, _ = stack(frame, frame)
    near = nearest_rows(rows, rows, rows.names, 2)
    assert (near.distances[:, 0] == 0).all()
    assert (near.distances[:, 1] > 0).all()
    np.testing.assert_array_equal(near.places[:, 0], np.arange(40))


@pytest.mark.parametrize("value", [np.nan, 7.0])
def test_a_column_without_a_range_compares_by_equality(value):
    rows, searched = stack({"a": [value, 8.0]}, {"a": [value, value]})
    (block,) = distance_blocks(rows, searched, ["a"])
    assert block.distances.tolist() == [[0.0, 0.0], [1.0, 1.0]]


# ---- the game


def test_both_sides_have_one_size_and_the_order_is_random():
    synthetic, original, control = (PublishedTable.of({"x": k * 100 + np.arange(k)}) for k in (5, 30, 20))
    game = draw_game(synthetic, original, control)
    assert (len(game), int(game.members.sum()), len(game.bystanders)) == (40, 20, 10)
    assert game.members[:20].any()
    assert game.members[20:].any()


def test_a_control_that_overlaps_is_noticed():
    synthetic, original, _ = (PublishedTable.of({"x": np.arange(k, k + 50)}) for k in (0, 100, 200))
    with pytest.warns(UserWarning, match="Set the control aside"):
        draw_game(synthetic, original, original)


def test_equal_rows_by_chance_are_not_noticed():
    """In a small domain rows are equal by chance, on both sides and between them."""
    generator = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(50):
            synthetic, original, control = (
                PublishedTable.of({"x": generator.integers(0, 400, 200)}) for _ in range(3)
            )
            draw_game(synthetic, original, control)


# ---- predicates


def test_each_predicate_matches_one_synthetic_row_and_none_is_made_twice():
    values = TableValues.of(tables()[0])
    generator = np.random.default_rng(0)
    for made in (make_univariate(values, 500, generator), make_multivariate(values, 100, 2, generator)):
        assert len(set(made)) == len(made) > 10
        assert all(values.match(predicate).sum() == 1 for predicate in made)


def test_fewer_predicates_than_asked_for_are_counted_as_what_they_are():
    """A known error of others: the attempts that do not exist count as successes, or stay in the denominator."""
    synthetic = PublishedTable.of({"x": [1, 1, 1, 9]})
    original, control = PublishedTable.of({"x": [1, 2, 9, 9]}), PublishedTable.of({"x": [1, 3, 4, 5]})
    counts = SinglingOut(predicates=500).run_with_counts(synthetic, original, control).counts
    assert (counts.asked, counts.made) == (500, 2)  # equal to 9, and at least 9
    assert (counts.original, counts.control) == (0, 0)
    assert "of 2 predicates" in str(counts)
    assert "500 were asked for" in str(counts)


def test_numbers_that_were_drawn_inside_of_bins_are_asked_for_by_extremes():
    """No person has the very number of a synthetic row, but few are more extreme."""
    generator = np.random.default_rng(0)
    values = TableValues.of(
        PublishedTable.of({"age": generator.random(50), "work": WORDS[np.arange(50) % 4]})
    )
    for predicate in make_multivariate(values, 20, 2, generator):
        assert all((c.comparison == "=") == (c.column == "work") for c in predicate)
    assert {predicate[0].comparison for predicate in make_univariate(values, 2, generator)} == {"≤", "≥"}


def test_no_predicate_at_all_is_no_hit():
    same = PublishedTable.of({"x": [1, 1, 1, 1], "y": ["a", "a", "a", "a"]})
    for columns in (1, 2):
        found = SinglingOut(columns).run_with_counts(same, same, same)
        assert found.counts.made == 0
        assert not found.recoveries.hits.any()


def test_nobody_else_includes_the_control_and_the_bystanders():
    synthetic = PublishedTable.of({"x": [1, 2, 2, 3, 3, 4, 4]})
    original = PublishedTable.of({"x": [1, 5, 6, 7]})
    alone = SinglingOut(predicates=1).run(synthetic, original, PublishedTable.of({"x": [8, 9, 10, 11]}))
    shared = SinglingOut(predicates=1).run(synthetic, original, PublishedTable.of({"x": [1, 9, 10, 11]}))
    assert alone.hits.sum() == 1
    assert alone.members[alone.hits].all()
    assert shared.hits.sum() == 0
    bystander = PublishedTable.of(
        {"x": [1, 1, 1, 5, 6, 7]}
    )  # whoever is judged, another 1 is in the original
    assert (
        not SinglingOut(predicates=1).run(synthetic, bystander, PublishedTable.of({"x": [8, 9]})).hits.any()
    )


# ---- synthetic = original, and other edges


def test_a_copy_of_the_original_is_found_by_every_attack():
    """A known error of others is a crash here: distances of 0, ranges of 0, nothing to divide by."""
    original, control, _ = tables(120)
    found = attack_synthetic(original, original, control, secret="tree")
    for recoveries in found.recoveries:
        inside, outside = recoveries.hits[recoveries.members], recoveries.hits[~recoveries.members]
        if "tree of pairs" not in recoveries.attack:
            assert inside.mean() > outside.mean(), recoveries
    by_name = {each.attack: each for each in found.recoveries}
    assert by_name["exact copies"].hits[by_name["exact copies"].members].all()
    assert by_name["linkability"].hits[by_name["linkability"].members].all()
    assert by_name["nearest records"].hits[by_name["nearest records"].members].all()
    assert found.distances.p_value == 0.001
    assert found.distances.median_to_original == 0


@pytest.mark.parametrize(
    "rows",
    [
        {"x": [1] * 30, "y": ["a"] * 30},
        {"x": [None] * 30, "y": ["a"] * 30},
        {"x": [np.nan] * 30, "y": [np.nan] * 30},
        {"x": [1e308, -1e308] * 15, "y": [0.0, 1.0] * 15},
    ],
    ids=["equal", "missing text", "all missing", "huge"],
)
def test_rows_that_tell_nothing_give_no_leak(rows):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = attack_synthetic(rows, rows, rows)
    for recoveries in found.recoveries:
        hits = recoveries.hits
        assert hits[recoveries.members].mean() == pytest.approx(hits[~recoveries.members].mean(), abs=0.25)


def test_other_columns_are_left_aside_and_kinds_that_differ_are_compared_as_text():
    synthetic = {"zip": ["2139", "2140", "2141"] * 9, "made": list(range(27))}
    original = {"zip": [2139, 2140, 2142] * 9, "name": ["x"] * 27}
    found = ExactCopies().run(*(PublishedTable.of(t) for t in (synthetic, original, {"zip": [1, 2, 3] * 9})))
    assert found.hits[found.members].sum() == 18
    assert not found.hits[~found.members].any()


def test_what_is_not_run_is_said():
    found = attack_synthetic({"x": np.arange(9)}, {"x": np.arange(9)}, {"x": np.arange(9) + 0.5})
    notes = " ".join(found.notes)
    assert len(found.recoveries) == 3
    assert found.scores == ()
    assert all(
        word in notes for word in ("Linkability was not run", "Inference was not", "density ratio was not")
    )


# ---- nearest records: the right pairs


def test_distances_are_of_synthetic_rows_to_people_of_both_sides():
    """A known error of others: distances within one table, or of the wrong two. Checked by brute force."""
    frames = [people(25, seed) for seed in (5, 6, 7)]
    found = NearestRecord().run_with_distances(*(PublishedTable.of(frame) for frame in frames)).distances
    to_original, to_control = (brute_force_gower(side, frames[0]).min(axis=0) for side in frames[1:])
    assert found.median_to_original == pytest.approx(np.median(to_original), abs=1e-6)
    assert found.median_to_control == pytest.approx(np.median(to_control), abs=1e-6)
    nearer = (to_original < to_control).mean() + 0.5 * (to_original == to_control).mean()
    assert found.share_nearer == pytest.approx(nearer, abs=0.05)
    turned = NearestRecord().run_with_distances(*(PublishedTable.of(frames[k]) for k in (0, 2, 1))).distances
    assert turned.share_nearer == pytest.approx(1 - found.share_nearer)


def test_people_who_are_equally_near_all_count():
    synthetic = PublishedTable.of({"x": [0, 10]})
    original, control = PublishedTable.of({"x": [0, 0, 4, 5]}), PublishedTable.of({"x": [0, 6, 6, 5]})
    found = NearestRecord(closest=0.125).run(synthetic, original, control)
    assert found.hits.sum() == 3
    assert found.hits[found.members].sum() == 2


# ---- inference, linkability, membership


def test_inference_hits_are_right_values():
    original, control, _ = tables(80)
    found = Inference("tree").run(original, original, control)
    inside = found.hits[found.members]
    assert inside.all()  # all rows differ, so the nearest row is one's own
    near = Inference("height", guesser=NearestGuess(1)).run(original, original, control)
    assert "right within" in near.criterion
    assert near.hits[near.members].mean() > 0.9
    assert len(found) < 160  # people without the secret are not judged


def test_equally_near_rows_vote_and_numbers_take_their_median():
    synthetic = {"known": ["a"] * 5 + ["b"], "word": ["x", "y", "y", "y", "z", "z"]}
    original, control = {"known": ["a", "b"], "word": ["y", "z"]}, {"known": ["a", "b"], "word": ["x", "x"]}
    found = Inference("word").run(*(PublishedTable.of(table) for table in (synthetic, original, control)))
    assert found.hits.tolist() == found.members.tolist()
    people, rows = (table.select(["known"]) for table in stack(original, synthetic))
    wide = NearestGuess(2).guess(people, rows, np.array([1.0, 2, 3, 40, 50, 9]), exact=False)
    assert wide.guesses.tolist() == [3.0, 6.0]  # of b: its row, and all rows that are second nearest


def test_a_learnt_guess_finds_a_relation_and_no_leak():
    generator = np.random.default_rng(0)

    def draw(count):
        x = generator.normal(size=count)
        return PublishedTable.of({"x": x, "sign": np.where(x > 0, "plus", "minus"), "twice": 2 * x})

    synthetic, original, control = draw(300), draw(300), draw(300)
    for secret in ("sign", "twice"):
        known = ["x"]
        found = Inference(secret, known, LearntGuess()).run(synthetic, original, control)
        assert found.hits.mean() > 0.8
        assert abs(found.hits[found.members].mean() - found.hits[~found.members].mean()) < 0.1


def test_linkability_counts_all_rows_that_are_equally_near():
    synthetic = PublishedTable.of({"a": ["p", "p", "q"], "b": ["s", "t", "t"]})
    original = PublishedTable.of({"a": ["p", "q"], "b": ["t", "s"]})
    control = PublishedTable.of({"a": ["q", "q"], "b": ["t", "s"]})
    found = Linkability().run(synthetic, original, control)
    assert found.hits[found.members].sum() == 1  # p, t share the second row; q, s share none
    assert found.hits[~found.members].sum() == 1


@pytest.mark.parametrize("density", [KernelDensity(), NeighborDensity(), TreeDensity()])
def test_densities_find_where_a_table_is_denser(density):
    generator = np.random.default_rng(0)
    frames = [
        {"x": np.round(generator.normal(m, 1, 200), 2), "w": WORDS[generator.integers(0, 4, 200)]}
        for m in (0, 3)
    ]
    one, other = stack(*frames)
    ratio = density.log_ratio(one, one, other)
    assert np.isfinite(ratio).all()
    assert (ratio > 0).mean() > 0.85
    assert (density.log_ratio(other, one, other) < 0).mean() > 0.85


def test_names_go_to_the_highest_scores():
    scores = Scores(np.array([5.0, 1.0, 4.0, 0.0]), np.array([True, True, False, False]), "a")
    assert name_members(scores, 0.25).hits.tolist() == [True, False, False, False]


def test_shadow_generators_find_copies_and_get_tables_as_arrays():
    original, control, _ = tables(60)
    seen = []

    def generate(table, rng):
        seen.append({name: values.dtype.kind for name, values in table.items()})
        rows = rng.permutation(len(table["tree"]))[:50]
        return {name: values[rows] for name, values in table.items()}

    synthetic = PublishedTable.of(generate(to_arrays(original), np.random.default_rng(9)))
    scores = ShadowGenerators(generate, runs=8).run(synthetic, original, control)
    assert np.mean(scores.values[scores.members]) > np.mean(scores.values[~scores.members])
    assert scores.values[scores.members].min() < np.median(scores.values)  # ten rows were left out
    assert seen[0] == {"height": "f", "children": "f", "tree": "O", "birth": "M"}
    assert len(seen) == 9


def test_arrays_are_the_table():
    table = PublishedTable.of({"n": [1, 2, 3], "t": ["a", None, "b"], "f": [1.5, np.nan, 2.0]})
    arrays = to_arrays(table)
    assert arrays["n"].dtype == np.int64
    assert arrays["t"].tolist() == ["a", None, "b"]
    back = PublishedTable.of(arrays)
    assert all(back[name].codes.tolist() == table[name].codes.tolist() for name in table.names)


# ---- one sentence for each bad input


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda s, o, c: attack_synthetic({"else": [1, 2]}, o, c),
            "'synthetic', 'original' and 'control' must have a",
        ),
        (
            lambda s, o, c: attack_synthetic({"tree": []}, o, c),
            "'synthetic' must have at least 2 rows, got 0",
        ),
        (
            lambda s, o, c: attack_synthetic(s, {"tree": ["oak"]}, c),
            "'original' must have at least 2 rows, got 1",
        ),
        (
            lambda s, o, c: attack_synthetic(s, o, {"tree": ["oak"]}),
            "'control' must have at least 2 rows, got 1",
        ),
        (
            lambda s, o, c: attack_synthetic(s, o, c, secret="disease"),
            "'secret' must be a column of all tables",
        ),
        (lambda s, o, c: attack_synthetic("s.csv", o, c), "'data' must be a pandas or Polars frame"),
        (lambda s, o, c: Linkability(["tree"]), "'first' and 'second' must be given together"),
        (lambda s, o, c: Linkability(["tree"], ["tree"]).run(s, o, c), "two sets of columns"),
        (lambda s, o, c: Linkability().run(*(t.select(["tree"]) for t in (s, o, c))), "two sets of columns"),
        (lambda s, o, c: Inference("tree", ["tree"]).run(s, o, c), "'known' must name columns"),
        (lambda s, o, c: SinglingOut(9).run(s, o, c), "'columns' must be at most the 4"),
        (
            lambda s, o, c: DensityRatio().run(s, o, c.take(np.arange(3))),
            "'control' must have at least 4 rows",
        ),
        (lambda s, o, c: ShadowGenerators(lambda t, r: t, runs=5), "'runs' must be even"),
        (
            lambda s, o, c: ShadowGenerators(lambda t, r: {"x": [1]}).run(s, o, c),
            "'generate' must give a table",
        ),
    ],
)
def test_bad_input_is_refused_in_a_sentence_with_its_fix(change, message):
    with pytest.raises(InvalidArgument, match=re.escape(message)) as refused:
        change(*tables(20))
    assert str(refused.value).count("\n") == 0
    assert str(refused.value).endswith(".")


def test_too_many_columns_are_refused_at_once():
    wide = PublishedTable.of({f"c{k}": [0, 1] for k in range(MOST_COLUMNS + 1)})
    with pytest.raises(InvalidArgument, match="at most 1,000 columns"):
        attack_synthetic(wide, wide, wide)
