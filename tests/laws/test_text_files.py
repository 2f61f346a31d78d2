"""A text file is read in one way: record by record, whatever stands in one, and however it is cut into blocks."""

import csv
import io
import random
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

pl = pytest.importorskip("polars")

from privet.errors import InvalidArgument  # noqa: E402
from privet.releasing.tables import text_files  # noqa: E402
from privet.releasing.tables.text_files import read_field_names, read_text_batches  # noqa: E402
from privet.releasing.tables.text_structure import TextStructure  # noqa: E402

PLAIN = st.lists(
    st.sampled_from(
        [b",", b"\n", b"\r\n", b"a", b" ", b"\x00", b"\xff", b"\xc3\xa9", b"\xe2\x82", b"#", b"'"]
    ),
    max_size=25,
).map(b"".join)
QUOTED = st.lists(
    st.sampled_from([b'"', b'"', b'""', b",", b"\n", b"\r\n", b"\r", b"a", b"bc", b"\xff", b"\xc3\xa9"]),
    max_size=25,
).map(b"".join)
CELL = st.text(st.sampled_from("ab\"',\n é;\u2028"), min_size=1, max_size=6)
RECORD = st.tuples(CELL, CELL, CELL)


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "data.csv"

    def rows(content, block=1 << 24, wanted=("x", "y")):
        path.write_bytes(content)
        names = read_field_names(path)
        batches = list(read_text_batches(path, names, list(wanted), block=block))
        return [tuple(row) for batch in batches for row in batch.rows()]

    rows.path = path
    return rows


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b"x,y\n1,2\n\n\r\n3,4\n", [("1", "2"), ("3", "4")]),  # empty lines are no records
        (b"x,y\r\n1,2\r\n3,4", [("1", "2"), ("3", "4")]),
        (b"x,y\n1,2\r3\n4,5\r\r\n", [("1", "2\r3"), ("4", "5\r")]),  # a lone carriage return is a character
        (b"\xef\xbb\xbfx,y\n1,2\n", [("1", "2")]),
        (b"\n\nx,y\n1,2\n", [("1", "2")]),
        (b"x,y\n1\n1,2,3\n,\n", [("1", None), ("1", "2"), ("", "")]),
        (b'x,y\n"a,b","c\nd"\n"e""f",g\n', [("a,b", "c\nd"), ('e"f', "g")]),
        (b'x,y\n"a"b,2\n3,x"y\n', [("ab", "2"), ("3", 'x"y')]),
        (b'x,y\n1,2\n"3,4\n5,6\n', [("1", "2"), ('"3', "4"), ("5", "6")]),  # a quote that is never closed
        (b'x,y\n""\n"",""\n', [("", None), ("", "")]),
        (b"x,y\n\xff,\x00\n", [("\ufffd", "\x00")]),
        (b'"x",y\n1,2\n', [("1", "2")]),
        (b"x,y,\n1,2,3\n", [("1", "2")]),  # a column without a name cannot be asked for
        (b"x,y\n", []),
        (b"x,y", []),
    ],
)
def test_the_rules(read, content, rows):
    shown = [tuple(value or None for value in row) for row in rows]
    for block in (1 << 24, 1, 3, 7):
        assert [tuple(value or None for value in row) for row in read(content, block)] == shown


# Records that follow RFC 4180 to the letter; nothing is tried twice, so that the time is linear.
FIELD = rb'(?:"[^"]*+(?:""[^"]*+)*+"|[^",\r\n]*+)'
TO_THE_LETTER = re.compile(rb"(?:" + FIELD + rb"(?:," + FIELD + rb")*+\r?\n)*+")


def by_polars(body, width=3):
    columns = {str(position): position for position in range(width)}
    return text_files._split_by_polars(body, width, columns).rows()


def one_by_one(body, width=3):
    records, end = text_files._split(body, 0, last=True)
    assert end == len(body)
    return [tuple(text_files._field(record, position) for position in range(width)) for record in records]


def with_empty_as_missing(rows):
    return [tuple(value or None for value in row) for row in rows]


@given(st.one_of(QUOTED, PLAIN, st.tuples(PLAIN, QUOTED).map(b"\n".join)))
@settings(max_examples=300)
@example(b'"')
@example(b'a"')
@example(b'"a"')
@example(b'"a"\n""\n"\n')
@example(b'"a"\r')
@example(b'"a"\r\n')
@example(b'"a""')
@example(b'"\r"\n\r')
def test_the_structure_of_a_block_is_what_the_grammar_says(body):
    """Positions of bytes find the records that a regular expression of RFC 4180 finds, from the start of any record."""
    structure = TextStructure(body)
    starts = {0, *(end for end in range(len(body)) if body[:end].endswith(b"\n"))}
    for start in starts:
        end = TO_THE_LETTER.match(body, start).end()
        assert structure.clear_end(start, quotes=True, last=False) == end
        line = body.rfind(b"\n", start, body.find(b'"', start) % (len(body) + 1)) + 1
        assert structure.clear_end(start, quotes=False, last=False) == min(end, max(line, start))


@given(st.one_of(QUOTED, PLAIN, st.tuples(PLAIN, QUOTED).map(b"\n".join)))
@settings(max_examples=300)
def test_polars_splits_what_follows_the_grammar_as_all_others_are_split(body):
    for last, width in ((False, 1), (True, 2), (False, 3)):
        clear = body[: TextStructure(body).clear_end(0, quotes=True, last=last)]
        split = with_empty_as_missing(by_polars(clear, width))
        assert split == with_empty_as_missing(one_by_one(clear, width))


@given(
    st.lists(st.lists(CELL, min_size=1, max_size=3), min_size=1, max_size=8), st.sampled_from(["\n", "\r\n"])
)
@settings(max_examples=150)
def test_records_that_a_writer_quoted_go_to_polars(records, end):
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator=end, quoting=csv.QUOTE_ALL).writerows(records)
    body = buffer.getvalue().encode()
    assert TextStructure(body).clear_end(0, quotes=True, last=True) == len(body)
    expected = [(*record, *[None] * (3 - len(record))) for record in records]
    assert by_polars(body) == one_by_one(body) == expected


@pytest.mark.slow
def test_many_records_by_the_letter_are_read(read):
    """Large enough for Polars to cut a block into pieces of its own, with line feeds and commas inside of quotes."""
    draw = random.Random(1)
    cells = ["plain", "with,comma", "line\nbreak", 'quo"te', "a\nb\nc\n", "1,2\n3,4", "z" * 40, '"', "\n"]
    for share in (0.9, 0.01):
        records = [
            (str(n), draw.choice(cells) if draw.random() < share else "z", str(n % 7)) for n in range(300_000)
        ]
        assert read(written(records), 1 << 24, ("x", "y", "z")) == records


@given(st.one_of(QUOTED, PLAIN, st.tuples(PLAIN, QUOTED).map(b"\n".join)), st.integers(1, 12))
@settings(max_examples=200)
def test_blocks_make_no_difference(read, body, block):
    content = b"x,y\n" + body
    whole = [tuple(value or None for value in row) for row in read(content)]
    assert [tuple(value or None for value in row) for row in read(content, block)] == whole


def written(records):
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows([("x", "y", "z"), *records])
    return buffer.getvalue().encode()


@given(st.lists(RECORD, max_size=8), st.integers(1, 40))
@settings(max_examples=150)
def test_what_a_writer_wrote_is_read(read, records, block):
    assert read(written(records), block, ("x", "y", "z")) == records


@given(st.lists(RECORD, min_size=1, max_size=6), RECORD, st.data())
@settings(max_examples=60)
def test_another_record_changes_one_record(read, records, other, data):
    place = data.draw(st.integers(0, len(records) - 1))
    changed = [*records[:place], other, *records[place + 1 :]]
    assert read(written(changed), 1 << 24, ("x", "y", "z")) == changed


def test_long_fields(read):
    long = "x" * 3_000_000
    records = [("1", long, "2"), ("3", "a\n" * 1_500_000, "4"), ("5", "6", "7")]
    for block in (1 << 24, 1 << 10):
        assert read(written(records), block, ("x", "y", "z")) == records


def test_a_quote_that_is_never_closed_swallows_no_more_than_its_limit(read, monkeypatch):
    monkeypatch.setattr(text_files, "_LONGEST_QUOTED", 50)
    body = b'"1,2\n' + b"3,4\n" * 100 + b'5,"6"\n'
    for block in (1 << 24, 16, 60):
        assert read(b"x,y\n" + body, block) == [('"1', "2"), *[("3", "4")] * 100, ("5", "6")]


@pytest.mark.parametrize(
    "content", [b"", b"\n\n", b",,\n1,2,3\n", b"x,x\n1,2\n", b"x,y\r1,2\r3,4\r", b"\r\r\r"]
)
def test_a_header_that_names_no_columns_is_refused_without_a_row(read, content):
    with pytest.raises(InvalidArgument, match="Add a header") as refused:
        read(content)
    assert "1" not in str(refused.value)
