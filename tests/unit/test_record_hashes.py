"""What identifies a record, and references that are put in the order of the records or refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from privet.errors import InvalidArgument
from privet.record_hashes import combine_hashes, hash_records
from privet.scores import Records, References

TABLES = st.one_of(
    arrays(np.float64, array_shapes(min_dims=1, max_dims=3, max_side=5)),
    arrays(np.int64, array_shapes(min_dims=1, max_dims=3, max_side=5)),
    arrays(np.uint64, array_shapes(min_dims=2, max_dims=2, max_side=4)),
    arrays(np.float32, array_shapes(min_dims=2, max_dims=2, max_side=4)),
    arrays(np.dtype("U3"), array_shapes(min_dims=2, max_dims=2, max_side=4)),
    arrays(object, (3, 2), elements=st.one_of(st.integers(-5, 5), st.text(max_size=2), st.none())),
)


class TestHashes:
    @given(table=TABLES, seed=st.integers(0, 100))
    def test_go_with_the_record_in_every_order(self, table, seed):
        order = np.random.default_rng(seed).permutation(len(table))
        np.testing.assert_array_equal(hash_records(table)[order], hash_records(table[order]))
        assert combine_hashes(hash_records(table)) == combine_hashes(hash_records(table[order]))

    @given(table=TABLES)
    def test_do_not_depend_on_the_other_records(self, table):
        for place, one in enumerate(hash_records(table)):
            assert hash_records(table[place : place + 1])[0] == one

    @given(table=TABLES)
    def test_are_equal_exactly_where_the_content_is(self, table):
        hashes = hash_records(table)
        for i in range(len(table)):
            for j in range(len(table)):
                one, two = np.asarray(table[i]), np.asarray(table[j])
                number = table.dtype.kind == "f"
                same = np.array_equal(one, two, equal_nan=number)
                assert (hashes[i] == hashes[j]) == same

    def test_do_not_depend_on_the_type_of_a_number(self):
        rows = np.array([[0, 1], [2, 3]])
        wanted = hash_records(rows, np.array([0, 1]))
        for kind in (np.int8, np.uint16, np.float16, np.float32, np.float64, object):
            np.testing.assert_array_equal(hash_records(rows.astype(kind), np.array([0.0, 1.0])), wanted)
        np.testing.assert_array_equal(hash_records(-0.0 * rows), hash_records(0.0 * rows))

    def test_tell_labels_shapes_and_large_numbers_apart(self):
        rows = np.arange(8.0).reshape(2, 4)
        seen = {
            *hash_records(rows).tolist(),
            *hash_records(rows, np.array([0, 0])).tolist(),
            *hash_records(rows, np.array([1, 1])).tolist(),
            *hash_records(rows.reshape(2, 2, 2)).tolist(),
        }
        assert len(seen) == 8
        assert len(set(hash_records(np.array([[2**60], [2**60 + 1]])).tolist())) == 2

    def test_a_set_is_told_from_one_with_a_record_twice(self):
        hashes = hash_records(np.arange(3.0)[:, None])
        assert combine_hashes(hashes) != combine_hashes(hashes[[0, 1, 2, 2]])


def _references(records, models=4):
    generator = np.random.default_rng(0)
    signals = generator.normal(size=(models, 1, len(records)))
    members = generator.random((models, len(records))) < 0.5
    logs = generator.normal(size=(models, len(records), 3))
    return References(signals, members, logs)


class TestAlignment:
    RECORDS = Records(np.random.default_rng(1).normal(size=(30, 3)), np.arange(30) % 3)

    @given(seed=st.integers(0, 1000), count=st.integers(1, 30))
    def test_takes_every_part_in_every_order(self, seed, count):
        references = _references(self.RECORDS).about(self.RECORDS)
        which = np.random.default_rng(seed).permutation(30)[:count]
        found = references.align(self.RECORDS.take(which))
        np.testing.assert_array_equal(found.signals, references.signals[:, :, which])
        np.testing.assert_array_equal(found.members, references.members[:, which])
        np.testing.assert_array_equal(found.log_confidences, references.log_confidences[:, which])
        np.testing.assert_array_equal(found.hashes, self.RECORDS.hashes[which])

    def test_other_records_are_refused(self):
        references = _references(self.RECORDS).about(self.RECORDS)
        moved = Records(self.RECORDS.inputs + 1e-9, self.RECORDS.labels)
        with pytest.raises(InvalidArgument, match=r"30 of 30 are missing.*give audit a recipe"):
            references.align(moved)
        relabelled = Records(self.RECORDS.inputs, np.roll(self.RECORDS.labels, 1))
        with pytest.raises(InvalidArgument, match="'references' must cover the records"):
            references.align(relabelled)

    def test_copies_are_one_record(self):
        """A model that was trained on one copy was trained on the record, whichever copy is asked about."""
        rows = np.array([[1.0], [2.0], [1.0], [3.0]])
        records = Records(rows, np.zeros(4, dtype=int))
        members = np.array([[1, 0, 0, 1], [0, 1, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]], dtype=bool)
        references = References(np.zeros((4, 1, 4)), members).about(records)
        either = np.array([[1, 0, 1, 1], [1, 1, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]], dtype=bool)
        np.testing.assert_array_equal(references.align(records).members, either)
        order = np.array([2, 3, 0, 1])
        np.testing.assert_array_equal(references.align(records.take(order)).members, either[:, order])

    def test_fewer_models_tell_of_the_same_records(self):
        references = _references(self.RECORDS).about(self.RECORDS).first(2)
        np.testing.assert_array_equal(references.hashes, self.RECORDS.hashes)
        assert references.models == 2
        assert len(references.log_confidences) == 2

    def test_hashes_are_one_for_each_record(self):
        references = _references(self.RECORDS)
        with pytest.raises(InvalidArgument, match="'hashes' must have one entry for each of 30"):
            References(references.signals, references.members, hashes=self.RECORDS.hashes[:3])
        with pytest.raises(InvalidArgument, match="the 30 that the references cover, got 2"):
            references.about(self.RECORDS.take(np.arange(2)))


def test_a_column_of_labels_is_labels():
    np.testing.assert_array_equal(
        Records(np.zeros((3, 2)), np.array([[0.0], [1.0], [1.0]])).labels, [0, 1, 1]
    )
