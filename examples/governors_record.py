"""The governor's record: a table without names, and a list of voters.

In 1997 a state published the hospital visits of its employees, without names. Latanya Sweeney bought the list of voters of
Cambridge for twenty dollars and found the governor's: nobody else of his zip code and sex was born on his day. Here both tables
are invented. They have the size of that town, and some dates are typed wrongly. The attack learns from the two tables alone what an
agreement is worth, and abstains if two rows fit. Half of the voters that it looks for are not in the table at all: how many of
these it "finds" is printed beside.

    python examples/governors_record.py [folder]
"""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from style import BLUE, GREY, INK, ORANGE, panels, save, show

from privet.attacks.linkage.records import ExactComparison, RecordLinkage
from privet.auditing import measure_recoveries
from privet.published_tables import PublishedTable
from privet.randomness import NoiseSource, experiment

VOTERS, PATIENTS, LOOKED_FOR, WRONG_DATES = 54_805, 8_000, 1_000, 0.02
PAIRS_PER_ROW = 10  # zip code and sex alone say too little to be looked at
ZIPS = np.array(["02138", "02139", "02140", "02141", "02142", "02163", "02238"])
SHARES = np.array([0.33, 0.34, 0.18, 0.1, 0.03, 0.01, 0.01])
GOVERNOR = (np.datetime64("1945-07-31"), "02138", "m")

Columns = dict[str, np.ndarray]


def main(out: Path, noise: NoiseSource | None = None) -> Path:
    """Links voters with patients, for five ways to publish the same table."""
    del noise  # nothing here is private
    generator = experiment(1997)
    birth, zips, sex = _invent_voters(generator)
    order = np.concatenate([[0], 1 + generator.permutation(VOTERS - 1)])  # the governor comes first
    patients, absent = order[:PATIENTS], order[PATIENTS:]
    known = np.concatenate([patients[: LOOKED_FOR // 2], absent[: LOOKED_FOR // 2]])
    truth = np.where(np.arange(LOOKED_FOR) < LOOKED_FOR // 2, np.arange(LOOKED_FOR), -1)

    typed = birth[patients].copy()
    wrong = (generator.random(PATIENTS) < WRONG_DATES) & (np.arange(PATIENTS) > 0)
    typed[wrong] += generator.integers(-9, 10, int(wrong.sum()))
    diagnosis = generator.choice(["flu", "asthma", "diabetes", "a broken arm"], PATIENTS)

    rows, found, still = [], [], []
    for title, shorten in _releases().items():
        published = PublishedTable.of(shorten(typed, zips[patients], sex[patients]))
        voters = PublishedTable.of(shorten(birth[known], zips[known], sex[known]))
        attack = RecordLinkage(comparisons={"sex": ExactComparison()}, pairs_per_row=PAIRS_PER_ROW)
        recoveries = attack.run(published, voters, truth)
        measured = measure_recoveries(recoveries)
        found.append(measured.success)
        still.append(measured.baseline)
        rows.append(
            (
                title,
                f"{100 * measured.success.value:.0f} %",
                f"{100 * measured.baseline.value:.1f} %",
                str(diagnosis[0]) if recoveries.hits[0] else "not found",
            )
        )
    show(
        f"{PATIENTS:,} patients of a town of {VOTERS:,}; {LOOKED_FOR // 2} voters who are among them, {LOOKED_FOR // 2} who are not",
        ("what is published", "found", "absent, and still found", "the governor has"),
        rows,
    )
    print(
        "\nNames were never in the table. Coarser columns hide most people; what still counts is who else is in it, and what "
        "somebody else may publish."
    )
    return save(_draw([row[0] for row in rows], found, still), out, "governors_record.png")


def _invent_voters(generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    age = 18 + 75 * generator.beta(1.2, 2.0, VOTERS)
    birth = np.datetime64("1997-01-01") - (365.25 * age).astype(np.int64)
    zips = generator.choice(ZIPS, VOTERS, p=SHARES)
    sex = generator.choice(["f", "m"], VOTERS)
    birth[0], zips[0], sex[0] = GOVERNOR
    return birth, zips, sex


def _releases() -> dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray], Columns]]:
    def year(birth: np.ndarray) -> np.ndarray:
        return birth.astype("datetime64[Y]").astype(np.int64) + 1970

    return {
        "date, zip, sex": lambda b, z, s: {"birth": b, "zip": z, "sex": s},
        "date, sex": lambda b, z, s: {"birth": b, "sex": s},
        "month, zip, sex": lambda b, z, s: {
            "month": b.astype("datetime64[M]").astype(str),
            "zip": z,
            "sex": s,
        },
        "year, zip, sex": lambda b, z, s: {"year": year(b), "zip": z, "sex": s},
        "decade, sex": lambda b, z, s: {"decade": year(b) // 10, "sex": s},
    }


def _draw(titles: list[str], found: list, still: list):  # noqa: ANN202 - a figure
    figure, (axis,) = panels(1)
    places = np.arange(len(titles))
    series = (
        ("not in the table, and still found", still, GREY, -0.2),
        ("in the table, and found", found, ORANGE, 0.2),
    )
    for name, rates, color, shift in series:
        values = np.array([100 * rate.value for rate in rates])
        errors = np.abs(np.array([[100 * rate.lower, 100 * rate.upper] for rate in rates]).T - values)
        drawn = axis.bar(places + shift, values, 0.36, color=color, label=name, yerr=errors, ecolor=BLUE)
        axis.bar_label(drawn, fmt="%.0f", padding=3, color=INK)
    axis.set_xticks(places, [title.replace(", ", ",\n") for title in titles])
    axis.set_ylim(0, 119)
    axis.set_yticks(range(0, 101, 25))
    axis.set_ylabel("voters, %")
    axis.set_title("Voters found among patients without names")
    axis.grid(axis="x", visible=False)
    axis.legend(loc="upper right", fontsize=9)
    return figure


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "examples-out"))
