"""Columns that are not in the records themselves: how numbers are written, which values a row has, how rough
it is.

A side that was stored in another way (rounded, compressed, brightened by one per cent, padded with another
code) has the same columns within any deviation, and is told from the other side by a glance at these.
"""

import numpy as np
from numpy.typing import NDArray

from privet.attacks.preflight.features import Features, to_numbers
from privet.attacks.preflight.images import describe_blocks, describe_frequencies, read_images
from privet.views import Rows

__all__ = ["SummaryTable", "derive_columns", "read_columns", "summarize_rows"]

_VALUES = 256  # common values that are counted in each row
_LOOKED_AT = 100_000  # numbers among which common values are looked for
_WRITTEN = 2_500_000  # numbers up to which the writing of each is a column
_DECIMALS = 5
_MISSING = ("", "?", "None", "NaN", "nan", "NA", "N/A", "null", "<NA>")

SummaryTable = tuple[str, Features]  # what a column of the table is, and the table


def read_columns(inputs: Rows) -> Features:
    """The columns of the records with missing values as NaN; texts are numbered by how common they are."""
    if inputs.dtype.kind in "biuf":
        return inputs.reshape(len(inputs), -1).astype(np.float32)
    cells = inputs.reshape(len(inputs), -1)
    return np.stack([_number_texts(cells[:, column]) for column in range(cells.shape[1])], axis=1)


def derive_columns(inputs: Rows) -> list[SummaryTable]:
    """Tables with one row for each record, each with the words for what its columns are."""
    tables: list[SummaryTable] = [("summary of the record", summarize_rows(inputs))]
    if inputs.dtype.kind not in "biuf":
        return [*tables, ("count of a word", to_numbers(inputs))]
    flat = inputs.reshape(len(inputs), -1)
    if flat.shape[1] > 1:
        tables.append(("count of a value", _count_values(flat)))
    if flat.dtype.kind == "f":
        written = _describe_writing(flat)
        if written.size <= _WRITTEN:
            tables.append(("precision of a column", written.astype(np.float32)))
        overall = [written.mean(1), written.min(1), written.max(1)]
        tables.append(("precision of the record", np.stack(overall, axis=1).astype(np.float32)))
    return tables


def summarize_rows(inputs: Rows) -> Features:
    """Some numbers of each record as a whole: mean, deviation, extremes, shares of zeros and of missing
    values, roughness, and bands of frequencies of images; of texts the length and the kinds of characters.
    """
    if inputs.dtype.kind not in "biuf":
        return _summarize_texts(inputs)
    flat = inputs.reshape(len(inputs), -1).astype(np.float32)
    missing = ~np.isfinite(flat)
    flat = np.where(missing, np.float32(0), flat)
    steps = np.abs(np.diff(flat, axis=1)) if flat.shape[1] > 1 else np.zeros_like(flat)
    summary = np.stack(
        [
            flat.mean(1),
            flat.std(1),
            flat.min(1),
            flat.max(1),
            (flat == 0).mean(1),
            missing.mean(1),
            steps.mean(1),
            (steps == 0).mean(1),
        ],
        axis=1,
        dtype=np.float32,
    )
    images = read_images(inputs)
    if images is None:
        return summary
    return np.concatenate([summary, describe_frequencies(images), describe_blocks(inputs)], axis=1)


def _summarize_texts(inputs: Rows) -> Features:
    rows = []
    for record in inputs.reshape(len(inputs), -1):
        text = "\n".join(str(value) for value in record)
        rows.append(
            (
                len(text),
                len(text.split()),
                sum(letter.isdigit() for letter in text),
                sum(letter.isupper() for letter in text),
                sum(not letter.isalnum() and not letter.isspace() for letter in text),
                sum(letter.isspace() for letter in text),
                sum(ord(letter) > 127 for letter in text),
                sum(str(value) in _MISSING for value in record),
            )
        )
    return np.array(rows, dtype=np.float32)


def _number_texts(cells: Rows) -> NDArray[np.float32]:
    """Numbers where all cells are numbers or missing; otherwise 0 for the most common text, 1 for the
    next."""
    try:
        return cells.astype(np.float32)
    except (TypeError, ValueError):
        texts = np.array([str(cell) for cell in cells])
    _, numbers, counts = np.unique(texts, return_inverse=True, return_counts=True)
    order = np.empty(len(counts), dtype=np.int64)
    order[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    return order[numbers].astype(np.float32)


def _count_values(flat: Rows) -> Features:
    """How often each of the most common values stands in each row, and last, how many values are others."""
    some = np.random.default_rng(0).integers(0, flat.size, size=min(flat.size, _LOOKED_AT))
    seen, counts = np.unique(flat.ravel()[some], return_counts=True)
    common = np.sort(seen[np.argsort(-counts, kind="stable")[:_VALUES]])
    place = np.minimum(np.searchsorted(common, flat), len(common) - 1)
    hit = common[place] == flat
    cells = (np.arange(len(flat))[:, None] * len(common) + place)[hit]
    table = np.bincount(cells, minlength=len(flat) * len(common)).reshape(len(flat), len(common))
    return np.concatenate([table, (~hit).sum(axis=1, keepdims=True)], axis=1).astype(np.float32)


def _describe_writing(flat: Rows) -> NDArray[np.int8]:
    """How precisely each number is written: decimals that it needs, and whether a shorter type holds it."""
    numbers = np.nan_to_num(flat.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    slack = 1e-12 if flat.dtype.itemsize > 4 else 1e-6
    size = np.abs(numbers) * slack
    decimals = np.full(flat.shape, _DECIMALS + 1, dtype=np.int8)
    for count in range(_DECIMALS, -1, -1):
        scaled = numbers * 10.0**count
        decimals[np.abs(scaled - np.rint(scaled)) <= size * 10.0**count] = count
    with np.errstate(over="ignore"):
        for number, kind in enumerate((np.float16, np.float32), start=1):
            if flat.dtype.itemsize > np.dtype(kind).itemsize:
                decimals[numbers != numbers.astype(kind)] += np.int8(8 * number)
    return decimals
