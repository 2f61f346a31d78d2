"""A ledger knows which one it is, whose column it protects, and whether it is behind what was answered from it."""

import json

import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privet.adjacency import AddRemove, ReplaceOne, Unit
from privet.budget_changes import BudgetChange
from privet.caveats import Caveat
from privet.errors import InvalidArgument, Unreadable
from privet.events import DiscreteLaplace, Opaque
from privet.filters import BasicFilter
from privet.ledger import Entry, Ledger
from privet.lineage import Head, fresh_identity
from privet.releasing import Budget, Count, MemoryStore, ReleasePlan
from privet.releasing.durable import DurableLedger, stored_ledger

TABLE = pandas.DataFrame({"person": [1, 1, 2], "family": [7, 7, 8], "age": [30, 31, 40]})
RULE = BasicFilter(epsilon=4.0, delta=0.0)


def entry(number):
    return Entry(f"question {number}", Opaque(epsilon=0.01 * (number + 1)))


def ledger_of(count, *, changes=(), identity="0" * 32):
    return Ledger(
        AddRemove(Unit.USER), tuple(map(entry, range(count))), changes=changes, identity=identity, filter=RULE
    )


def change(place, reason="why"):
    return BudgetChange(place=place, before=None, after=RULE, reason=reason, time="2026-01-01T00:00:00+00:00")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.json"


def ask(path, *, unit="person", budget=None, label="people", epsilon=0.5):
    plan = ReleasePlan(statistics=((label, Count()),), unit=unit, budget=Budget(epsilon=epsilon))
    with DurableLedger(path=path, adjacency=plan.relation, budget=budget).open() as held:
        return plan.run(TABLE, store=held, data_name=label)


class TestChain:
    @given(st.lists(st.sampled_from(["spend", "change"]), max_size=12))
    def test_every_state_is_beyond_those_that_it_grew_from_and_no_other(self, moves):
        """Law: the chain only grows, whatever is added to a ledger."""
        states = [ledger_of(1)]
        for move in moves:
            last = states[-1]
            more = (
                ledger_of(len(last) + 1, changes=last.changes)
                if move == "spend"
                else ledger_of(len(last), changes=(*last.changes, change(len(last), f"{len(states)}")))
            )
            states.append(more)
        for place, state in enumerate(states):
            assert Ledger.from_json(state.to_json()) == state
            for other, earlier in enumerate(states):
                assert state.is_beyond(earlier.head) == (other <= place)

    def test_another_ledger_with_the_same_entries_is_another(self):
        one, other = ledger_of(3), ledger_of(3, identity=fresh_identity())
        assert not one.is_beyond(other.head)
        assert one.head.digest != other.head.digest

    def test_a_branch_is_not_beyond_what_it_branched_off_from(self):
        grown = ledger_of(3)
        branch = Ledger(AddRemove(Unit.USER), (entry(0), entry(5), entry(2)), identity="0" * 32, filter=RULE)
        assert not branch.is_beyond(grown.head)
        assert branch.is_beyond(ledger_of(1).head)

    def test_a_ledger_without_a_number_has_no_head(self):
        plain = ledger_of(2, identity=None)
        assert plain.head is None
        assert "lineage" not in json.loads(plain.to_json())
        assert not plain.is_beyond(ledger_of(1).head)

    def test_a_sum_is_a_new_ledger(self):
        both = ledger_of(2, changes=(change(1),)) + ledger_of(1)
        assert (both.identity, both.changes, both.filter) == (None, (), None)

    @pytest.mark.parametrize(
        "text", ["", "a:b:c", "0" * 32, f"{'0' * 32}:-1:{'f' * 64}", f"{'0' * 32}:1:{'g' * 64}"]
    )
    def test_a_head_that_is_none_is_refused(self, text):
        with pytest.raises(InvalidArgument, match="NUMBER:LINKS:DIGEST"):
            Head.from_text(text)


EDITS = {
    "an event": ('"epsilon":0.02', '"epsilon":0.01'),
    "a label": ("question 1", "question 7"),
    "the budget": ('"epsilon": 4.0', '"epsilon": 9.0'),
    "a caveat": ('["LATE_BUDGET"]', "[]"),
    "a reason": ('"why"', '"who"'),
    "the column": ('"person"', '"family"'),
    "the adjacency": ("add-remove", "zero-out"),
    "the number": ('"' + "0" * 32, '"1' + "0" * 31),
}


class TestDamage:
    """A number of 0.1.0 that was changed in the file changed what was spent, and nobody noticed."""

    @pytest.mark.parametrize("edited", list(EDITS))
    def test_what_was_edited_is_refused(self, edited):
        text = Ledger(
            AddRemove(Unit.USER),
            (entry(0), entry(1)),
            frozenset({Caveat.LATE_BUDGET}),
            RULE,
            "person",
            (change(1),),
            "0" * 32,
        ).to_json()
        before, after = EDITS[edited]
        assert before in text
        with pytest.raises(Unreadable, match="damaged, cut or edited"):
            Ledger.from_json(text.replace(before, after))

    def test_a_line_that_was_taken_out_is_noticed(self):
        lines = ledger_of(4).to_json().split("\n")
        place = next(at for at, line in enumerate(lines) if "question 2" in line)
        with pytest.raises(Unreadable, match="damaged, cut or edited"):
            Ledger.from_json("\n".join(lines[:place] + lines[place + 1 :]))

    @pytest.mark.parametrize(
        "lineage", [7, {}, {"id": "0"}, {"id": "0" * 32}, {"id": "0" * 32, "head": "", "seal": ""}]
    )
    def test_a_lineage_that_is_none_is_refused(self, lineage):
        document = json.loads(ledger_of(2).to_json()) | {"lineage": lineage}
        with pytest.raises(Unreadable):
            Ledger.from_json(json.dumps(document))

    @pytest.mark.parametrize(
        "change",
        [7, {}, {"place": 1}, {**change(1).to_plain(), "place": 9}, {**change(1).to_plain(), "after": None}],
    )
    def test_a_change_that_is_none_is_refused(self, change):
        document = json.loads(ledger_of(2, identity=None).to_json()) | {"changes": [change]}
        with pytest.raises(Unreadable):
            Ledger.from_json(json.dumps(document))

    def test_another_layout_of_the_same_document_is_the_same_ledger(self):
        text = ledger_of(2).to_json()
        assert Ledger.from_json(json.dumps(json.loads(text), indent=7, sort_keys=True)) == ledger_of(2)


class TestAnswersAhead:
    def test_a_ledger_from_a_backup_is_behind_its_answers(self, path):
        ask(path, label="one")
        older = path.read_bytes()
        ask(path, label="two")
        path.write_bytes(older)
        with pytest.raises(Unreadable, match="what was spent is not known. Restore"):
            ask(path, label="three")
        with pytest.raises(Unreadable, match="what was spent is not known. Restore"):
            stored_ledger(path)

    def test_a_new_ledger_in_its_place_is_another(self, path):
        ask(path, label="one")
        path.unlink()
        with pytest.raises(Unreadable, match="what was spent is not known"):
            ask(path, label="one")
        with pytest.raises(Unreadable, match="what was spent is not known"):
            stored_ledger(path)
        other = path.with_name("other.json")
        ask(other, label="one")
        path.write_bytes(other.read_bytes())
        with pytest.raises(Unreadable, match="what was spent is not known"):
            ask(path, label="two")

    def test_a_change_of_the_budget_that_was_undone_is_noticed_by_the_next_answer(self, path):
        ask(path, label="one", budget=Budget(epsilon=4.0))
        older = path.read_bytes()
        with DurableLedger(path=path, adjacency=AddRemove(Unit.USER), budget=None).open() as held:
            held.change_budget(Budget(epsilon=1.0), reason="less")
        ask(path, label="two")
        path.write_bytes(older)
        with pytest.raises(Unreadable, match="what was spent is not known"):
            ask(path, label="three")

    def test_a_folder_put_back_as_a_whole_is_noticed_by_a_head_that_was_noted(self, path):
        """What the folder alone cannot tell: nothing in it is newer than the rest."""
        ask(path, label="one")
        backup = {file: file.read_bytes() for file in path.parent.iterdir()}
        ask(path, label="two")
        noted = stored_ledger(path).head
        assert stored_ledger(path).is_beyond(noted)
        for file, content in backup.items():
            file.write_bytes(content)
        restored = stored_ledger(path)
        assert restored is not None
        assert not restored.is_beyond(noted)

    def test_a_missing_ledger_is_nothing(self, path):
        assert stored_ledger(path) is None


class TestUnitColumn:
    def test_the_first_spend_says_whose_rows_are_meant(self, path):
        ask(path)
        assert json.loads(path.read_text())["unit_column"] == "person"
        before = path.read_bytes()
        with pytest.raises(
            InvalidArgument, match="names, and 'family' is asked for. Ask with the unit 'person'"
        ):
            ask(path, unit="family", label="families")
        assert path.read_bytes() == before
        assert len(ask(path, label="more").ledger) == 2

    def test_a_ledger_of_rows_has_no_column(self, path):
        ask(path, unit=None)
        assert "unit_column" not in json.loads(path.read_text())
        with pytest.raises(InvalidArgument, match="same unit"):
            ask(path, unit="person")

    def test_a_stored_answer_of_another_column_is_refused_too(self, path):
        """Nothing would be spent, and it is refused all the same: the message must not depend on what is stored."""
        ask(path)
        with pytest.raises(InvalidArgument, match="'family' is asked for"):
            ask(path, unit="family")

    def test_a_ledger_that_knows_no_column_takes_the_first(self, path):
        durable = DurableLedger(path=path, adjacency=AddRemove(Unit.USER), budget=None)
        with durable.open() as held:
            held.spend((Entry("before", DiscreteLaplace(2.0, 1)),))
        ask(path)
        assert stored_ledger(path).unit_column == "person"

    def test_a_store_in_memory_knows_it_too(self):
        store = MemoryStore(AddRemove(Unit.USER))
        plans = {
            unit: ReleasePlan(statistics=(("people", Count()),), unit=unit, budget=Budget(epsilon=0.5))
            for unit in ("person", "family")
        }
        assert plans["person"].run(TABLE, store=store).ledger.unit_column == "person"
        with pytest.raises(InvalidArgument, match="'family' is asked for"):
            plans["family"].run(TABLE, store=store)
        assert len(store.ledger) == 1

    def test_sums_of_ledgers(self):
        def one(column):
            return Ledger(AddRemove(Unit.USER), (entry(0),), unit_column=column)

        assert (one("person") + one("person")).unit_column == "person"
        assert (one("person") + one(None)).unit_column is None
        with pytest.raises(InvalidArgument, match="one column of units"):
            one("person") + one("family")

    def test_rows_have_no_column(self):
        with pytest.raises(InvalidArgument, match="each row is protected by itself"):
            Ledger(ReplaceOne(), unit_column="person")


def test_wrong_fields_are_refused():
    for fields in ({"changes": 7}, {"changes": (change(1),)}, {"changes": (7,)}):
        with pytest.raises(InvalidArgument, match="'changes' must"):
            Ledger(AddRemove(), **fields)
    with pytest.raises(InvalidArgument, match="'changes' must stand in order"):
        ledger_of(3, changes=(change(2), change(1)))
    with pytest.raises(InvalidArgument, match="'after' must be a filter"):
        BudgetChange(place=0, before=None, after=None, reason="why", time="now")
