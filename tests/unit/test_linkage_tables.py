"""k, l, t and δ of a table, and the attacks on what they miss, against the same attacks written out."""

import numpy as np
import pytest

from privet.attacks.linkage import (
    BackgroundKnowledge,
    ExactMatch,
    Homogeneity,
    Intersection,
    measure_anonymity,
    measure_presence,
)
from privet.attacks.linkage.class_values import ClassValues
from privet.attacks.linkage.table_targets import TableTargets
from privet.auditing import measure_recoveries
from privet.errors import InvalidArgument
from privet.published_tables import PublishedTable
from privet.randomness import experiment

TWO_PATIENTS = PublishedTable.of(
    {"age": [55, 55, 60, 60, 60, 60], "disease": ["flu", "cancer", "flu", "flu", "flu", "flu"]}
)


def random_table(seed, rows=40, classes=6, values=4):
    coins = np.random.default_rng(seed)
    return PublishedTable.of(
        {"q": coins.integers(0, classes, rows), "s": coins.integers(0, values, rows).astype(float)}
    )


class TestAnonymity:
    def test_t_closeness_of_ordered_salaries(self):
        """Li, Li & Venkatasubramanian 2007, section 5: D[{3k,4k,5k}] = 0.375 and D[{6k,8k,11k}] = 0.167."""
        salaries = np.array([3, 4, 5, 6, 8, 11, 7, 9, 10]) * 1000.0
        table = PublishedTable.of({"class": [1, 1, 1, 2, 2, 2, 3, 3, 3], "salary": salaries})
        assert measure_anonymity(table, ["class"], "salary").diversity.closeness == pytest.approx(0.375)
        less = PublishedTable.of({"class": [1, 2, 2, 2, 1, 2, 1, 1, 1], "salary": np.sort(salaries)})
        assert measure_anonymity(less, ["class"], "salary").diversity.closeness < 0.375

    def test_the_second_class_of_the_paper(self):
        salaries = np.array([3, 4, 5, 6, 7, 8, 9, 10, 11]) * 1000.0
        table = PublishedTable.of({"class": [1, 1, 1, 2, 1, 2, 1, 1, 2], "salary": salaries})
        # {6k, 8k, 11k} is at 0.167 and the six others at half of that, because their mean is the table's.
        assert measure_anonymity(table, ["class"], "salary").diversity.closeness == pytest.approx(1 / 6)

    @pytest.mark.parametrize("ordered", [True, False])
    @pytest.mark.parametrize("seed", range(12))
    def test_every_measure_is_as_written_out(self, seed, ordered):
        table = random_table(seed)
        classes, values = table["q"].codes, table["s"].codes
        if not ordered:
            table = PublishedTable.of({"q": classes, "s": [f"v{value}" for value in values]})
        found = measure_anonymity(table, ["q"], "s").diversity
        kinds = np.unique(values)
        overall = np.array([(values == kind).mean() for kind in kinds])
        distances, entropies, distinct = [], [], []
        for each in np.unique(classes):
            inside = values[classes == each]
            shares = np.array([(inside == kind).mean() for kind in kinds])
            gap = shares - overall
            distances.append(
                np.abs(np.cumsum(gap)).sum() / (len(kinds) - 1) if ordered else np.abs(gap).sum() / 2
            )
            entropies.append(-sum(share * np.log(share) for share in shares if share))
            distinct.append(int((shares > 0).sum()))
        assert found.closeness == pytest.approx(max(distances))
        assert found.entropy == pytest.approx(np.exp(min(entropies)))
        assert found.distinct == min(distinct)

    def test_two_patients_of_55_have_one_of_two_diseases(self):
        found = measure_anonymity(TWO_PATIENTS, ["age"], "disease")
        assert (found.k, found.diversity.distinct) == (2, 1)
        assert found.diversity.homogeneous == pytest.approx(4 / 6)

    def test_presence_needs_everybody(self):
        table, people = PublishedTable.of({"age": [1, 1]}), PublishedTable.of({"age": [1, 2, 2]})
        with pytest.raises(InvalidArgument, match="must hold everybody"):
            measure_presence(table, people, ["age"])
        with pytest.raises(InvalidArgument, match="lacks 1 of 1"):
            measure_presence(table, PublishedTable.of({"zip": [1]}), ["age"])
        both = PublishedTable.of({"age": [1, 1, 2, 2]})
        assert measure_presence(table, both, ["age"]) == (0.0, 1.0)


def read_class(table, row, *, member, excluded=None):
    """The most common value in the class of a row, in the table or without the row: the attack in plain words."""
    keep = np.ones(len(table), dtype=bool)
    keep[row] = member
    for inside in (keep & (table["q"].codes == table["q"].codes[row]), keep):
        values = [value for value in table["s"].codes[inside].tolist() if value != excluded]
        if values:
            return max(sorted(set(values)), key=values.count)
    return None


class TestAttacksOnClasses:
    def rule_out(self, table, targets, seed):
        """For each target the value of a random other person of the class: by the same coins, written out."""
        for row, uniform in zip(targets.rows, experiment(seed).random(len(targets)), strict=True):
            inside = np.sort(table["s"].codes[table["q"].codes == table["q"].codes[row]])
            others = inside[inside != table["s"].codes[row]]
            yield others[int(uniform * len(others))] if len(others) else None

    @pytest.mark.parametrize("seed", range(25))
    def test_leave_one_out_is_the_attack_on_a_table_without_the_row(self, seed):
        table = random_table(seed)
        targets = TableTargets.draw(len(table), seed=seed)
        truths = table["s"].codes[targets.rows]
        knowledge = iter(self.rule_out(table, targets, seed))
        for attack in (Homogeneity(), BackgroundKnowledge()):
            hits = attack.run(table, ["q"], "s", seed=seed).hits
            for row, member, truth, hit in zip(targets.rows, targets.members, truths, hits, strict=True):
                ruled_out = next(knowledge) if isinstance(attack, BackgroundKnowledge) else None
                assert hit == (read_class(table, row, member=member, excluded=ruled_out) == truth)

    @pytest.mark.parametrize("seed", range(10))
    def test_exact_match_claims_if_one_row_agrees(self, seed):
        table = random_table(seed, classes=30)
        targets = TableTargets.draw(len(table), seed=seed)
        hits = ExactMatch().run(table, ["q"], seed=seed).hits
        for row, member, hit in zip(targets.rows, targets.members, hits, strict=True):
            agree = int((table["q"].codes == table["q"].codes[row]).sum()) - (not member)
            assert hit == (agree == 1)

    def test_one_thing_more_is_enough_for_the_two_patients(self):
        """Homogeneity is right about one of the two; whoever can rule out the other's disease is sure."""
        coins = np.random.default_rng(2)
        pairs = np.array([coins.permutation(20)[:2] for _ in range(500)])  # two of twenty diseases each
        table = PublishedTable.of({"age": np.repeat(np.arange(500), 2), "s": pairs.ravel()})
        assert measure_anonymity(table, ["age"], "s").k == 2
        plain = measure_recoveries(Homogeneity().run(table, ["age"], "s"))
        informed = measure_recoveries(BackgroundKnowledge().run(table, ["age"], "s"))
        assert 0.4 < plain.success.value < 0.6
        assert informed.success.value == 1.0
        assert informed.baseline.value < 0.2

    def test_large_classes_of_a_common_value_leak_nothing(self):
        """A class of 500 people who all have flu tells as much about a person who is not in it."""
        table = PublishedTable.of({"age": np.repeat([1, 2], 500), "s": np.repeat(["flu", "cold"], 500)})
        found = measure_recoveries(Homogeneity().run(table, ["age"], "s"))
        assert (found.success.value, found.baseline.value, found.detected) == (1.0, 1.0, False)

    def test_reading_the_class_with_the_absent_row_is_caught(self, monkeypatch):
        """The mutation: without leave-one-out, unique people are "found" where they are absent, too."""
        table = PublishedTable.of({"age": np.arange(400), "s": np.arange(400) % 7})
        assert measure_recoveries(Homogeneity().run(table, ["age"], "s")).leak.value > 0.5
        plain = ClassValues.most_common

        def with_everybody(self, classes, *, excluded, own, removed):
            return plain(self, classes, excluded=excluded, own=own, removed=np.zeros_like(removed))

        monkeypatch.setattr(ClassValues, "most_common", with_everybody)
        assert measure_recoveries(Homogeneity().run(table, ["age"], "s")).leak.value == 0.0


class TestComposition:
    def test_two_k_anonymous_releases_tell_more_than_each(self):
        coins = np.random.default_rng(4)
        people, diseases = np.arange(2000), coins.integers(0, 30, 2000)
        first = PublishedTable.of({"place": people // 4, "s": diseases})  # four neighbours each
        second = PublishedTable.of({"place": people % 500, "s": diseases})  # four others
        assert [measure_anonymity(table, ["place"]).k for table in (first, second)] == [4, 4]
        alone = measure_recoveries(Homogeneity().run(first, ["place"], "s"))
        both = measure_recoveries(Intersection().run(first, second, ["place"], "s", truth=people))
        assert both.success.lower > alone.success.upper + 0.1
        assert both.leak.lower > alone.leak.upper

    def test_the_intersection_is_as_written_out(self):
        coins = np.random.default_rng(5)
        first = PublishedTable.of({"q": coins.integers(0, 4, 30), "s": coins.integers(0, 4, 30)})
        second = PublishedTable.of({"q": coins.integers(0, 4, 25), "s": first["s"].codes[:25] - 1})
        truth = np.arange(25)
        targets = TableTargets.draw(25, seed=0)
        hits = Intersection().run(first, second, ["q"], "s", truth=truth).hits
        for row, member, hit in zip(targets.rows, targets.members, hits, strict=True):
            values = []
            for table in (first, second):
                keep = table["q"].codes == table["q"].codes[row]
                keep[row] = member
                values.append((table["s"].codes[keep]).tolist())
            products = {value: values[0].count(value) * values[1].count(value) for value in range(6)}
            best = max(products, key=products.get)
            assert hit == (products[best] > 0 and best == first["s"].codes[row])

    def test_people_must_be_in_both(self):
        table = random_table(0)
        with pytest.raises(InvalidArgument, match="share at least 2 people"):
            Intersection().run(table, table, ["q"], "s", truth=np.full(len(table), -1))
