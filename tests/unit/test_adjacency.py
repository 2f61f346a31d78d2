import pytest

from privet.adjacency import AddRemove, ReplaceOne, Unit, ZeroOut, adjacency_from_name
from privet.errors import Unreadable


@pytest.mark.parametrize("kind", [AddRemove, ReplaceOne, ZeroOut])
@pytest.mark.parametrize("unit", list(Unit))
def test_names_read_back(kind, unit):
    adjacency = kind(unit)
    assert adjacency_from_name(adjacency.relation, str(unit)) == adjacency
    assert str(adjacency) == f"{adjacency.relation} ({unit})"


def test_only_a_replacement_moves_a_sum_twice():
    assert AddRemove.contribution_distance == 1
    assert ZeroOut.contribution_distance == 1
    assert ReplaceOne.contribution_distance == 2


def test_units_and_relations_are_different_claims():
    everything = {kind(unit) for kind in (AddRemove, ReplaceOne, ZeroOut) for unit in Unit}
    assert len(everything) == 9


@pytest.mark.parametrize(("relation", "unit"), [("add", "record"), ("AddRemove", "record"), ("", "record")])
def test_unknown_relations_are_refused(relation, unit):
    with pytest.raises(Unreadable, match=r"'adjacency' must be one of .*add-remove.*Name"):
        adjacency_from_name(relation, unit)


def test_unknown_units_are_refused():
    with pytest.raises(Unreadable, match=r"'unit' must be one of .*record.*Name"):
        adjacency_from_name("add-remove", "household")
