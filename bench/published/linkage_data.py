"""Pairs of tables with known true links: FEBRL4, historical figures, and generated voters with errors of other kinds."""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
LETTERS, DIGITS = list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), list("0123456789")


def load(name):
    sys.path.insert(0, str(next(path for path in (SHARED, Path("/work/shared/data")) if path.exists())))
    from load import load as read

    return read(name)


@dataclass
class Case:
    """A published table, known people, the published row of each of them or −1, and the kind of each column."""

    name: str
    published: pd.DataFrame
    known: pd.DataFrame
    truth: np.ndarray
    kinds: dict


def leave_out(case, generator):
    """The case with each published row kept by a fair coin."""
    kept = np.flatnonzero(generator.random(len(case.published)) < 0.5)
    places = np.full(len(case.published) + 1, -1)  # the last one is for −1
    places[kept] = np.arange(len(kept))
    return Case(
        f"{case.name}, half left out",
        case.published.iloc[kept].reset_index(drop=True),
        case.known,
        places[case.truth],
        case.kinds,
    )


def febrl():
    """Without the social-security number."""
    table = load("febrl4_synthetic_persons").astype("string")
    table["date_of_birth"] = (
        table["date_of_birth"]
        .str.replace(r"\.0$", "", regex=True)
        .str.replace(r"^(....)(..)(..)$", r"\1-\2-\3", regex=True)
    )
    for name in ("street_number", "postcode"):
        table[name] = table[name].str.replace(r"\.0$", "", regex=True)
    table["person"] = table["rec_id"].str.extract(r"rec-(\d+)")[0].astype(int)
    published, known = (table[table["file"] == name].reset_index(drop=True) for name in ("4a", "4b"))
    places = dict(zip(published["person"], range(len(published)), strict=True))
    truth = np.array([places[person] for person in known["person"]])
    kinds = {
        "given_name": "name",
        "surname": "name",
        "street_number": "code",
        "address_1": "name",
        "address_2": "name",
        "suburb": "name",
        "postcode": "code",
        "state": "exact",
        "date_of_birth": "date",
    }
    return Case("FEBRL4", published[list(kinds)], known[list(kinds)], truth, kinds)


def historical(generator):
    """Two records of each person, of which the first is published: Wikidata with injected errors."""
    table = load("historical_figures_50k").reset_index(drop=True)
    shuffled = table.iloc[generator.permutation(len(table))]
    numbered = shuffled.groupby("cluster").cumcount()
    published = shuffled[numbered == 0].set_index("cluster")
    known = shuffled[numbered == 1].set_index("cluster")
    places = dict(zip(published.index, range(len(published)), strict=True))
    truth = np.array([places[person] for person in known.index])
    kinds = {
        "first_name": "name",
        "surname": "name",
        "dob": "date",
        "birth_place": "name",
        "postcode_fake": "name",
        "gender": "exact",
        "occupation": "name",
    }
    tables = [part.reset_index(drop=True)[list(kinds)].astype("string") for part in (published, known)]
    return Case("historical figures", *tables, truth, kinds)


def voters(generator, *, people=6000, rate=0.15):
    """US names by their frequency in 1990; the second table has short forms, new surnames, moves, exchanged days and months, typing
    errors and missing values, each with this rate."""
    names = load("us_census1990_names")
    last, first = (names[names["list"].str.contains("last") == side] for side in (True, False))
    drawn = [
        generator.choice(
            part["name"].to_numpy().astype(str), people, p=(part["freq"] + 1e-4) / (part["freq"] + 1e-4).sum()
        )
        for part in (first, last)
    ]
    born = np.datetime64("1930-01-01") + generator.integers(0, 27000, people)
    zips = np.char.zfill(generator.integers(2100, 2500, people).astype(str), 5)
    sex = generator.choice(["m", "f"], people)
    table = pd.DataFrame(
        {"first": drawn[0], "last": drawn[1], "birth": born.astype(str), "zip": zips, "sex": sex}
    )
    known = damage(table, generator, rate)
    order = generator.permutation(people)
    kinds = {"first": "name", "last": "name", "birth": "date", "zip": "code", "sex": "exact"}
    return Case(
        f"voters, errors {100 * rate:.0f} %",
        table.astype("string"),
        known.iloc[order].reset_index(drop=True).astype("string"),
        order,
        kinds,
    )


def damage(table, generator, rate):
    answer, people = table.copy(), len(table)

    def some():
        return generator.random(people) < rate

    for name in ("first", "last", "zip"):
        answer[name] = [
            mistype(value, generator) if hit else value
            for value, hit in zip(answer[name], some(), strict=True)
        ]
    answer["first"] = np.where(some(), answer["first"].str[:3], answer["first"])
    answer["last"] = np.where(some(), generator.permutation(table["last"].to_numpy()), answer["last"])
    answer["zip"] = np.where(some(), generator.permutation(table["zip"].to_numpy()), answer["zip"])
    exchanged = [f"{day[:4]}-{day[8:]}-{day[5:7]}" if int(day[8:]) <= 12 else day for day in answer["birth"]]
    answer["birth"] = np.where(some(), exchanged, answer["birth"])
    days = answer["birth"].to_numpy().astype("datetime64[D]") + generator.integers(-400, 400, people)
    answer["birth"] = np.where(some(), days.astype(str), answer["birth"])
    for name in ("first", "zip", "sex"):
        answer.loc[generator.random(people) < rate / 2, name] = None
    return answer


def mistype(word, generator):
    """One wrong, missing, added or exchanged character."""
    place = int(generator.integers(max(len(word), 1)))
    letter = str(generator.choice(DIGITS if word[:1].isdigit() else LETTERS))
    before, here, after = word[:place], word[place : place + 1], word[place + 1 :]
    kinds = (
        before + letter + after,
        before + after,
        before + letter + here + after,
        before + after[:1] + here + after[1:],
    )
    return kinds[int(generator.integers(4))]
