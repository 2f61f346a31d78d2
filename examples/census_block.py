"""A block of seven people, rebuilt from what was published about it.

Counts, means and medians of groups are published; groups of one or two people are suppressed. Each line
leaves many tables of people possible. All lines together leave one, so it is certain who lives there: no luck
and no other source is needed. After the example of Garfinkel, Abowd and Martindale (2019), with other people.
Counts with noise leave nothing that is certain.

    python examples/census_block.py [folder]
"""

import sys
from pathlib import Path
from statistics import mean, median

import polars
from matplotlib.figure import Figure
from style import BLUE, GREY, INK, ORANGE, panels, save, show

from privet.attacks.reconstruction import ConsistentTables, PeopleColumns, PeopleGroup, PublishedStatistic
from privet.auditing import measure_recoveries
from privet.randomness import NoiseSource, SecureNoise, experiment
from privet.releasing import Budget, Count, GroupBy, Mean, ReleasePlan

PEOPLE = [  # secret: sex, whether born abroad, whether married, age
    ("f", "no", "no", 9),
    ("m", "yes", "no", 21),
    ("f", "yes", "no", 26),
    ("m", "yes", "yes", 34),
    ("f", "no", "yes", 41),
    ("f", "no", "yes", 70),
    ("m", "no", "yes", 86),
]
COLUMNS = PeopleColumns(
    {"sex": ("f", "m"), "abroad": ("no", "yes"), "married": ("no", "yes")},
    "age",
    1,
    115,
    impossible=(PeopleGroup({"married": "yes"}, upper=17),),
)
GROUPS = {
    "everybody": PeopleGroup(),
    "women": PeopleGroup({"sex": "f"}),
    "men": PeopleGroup({"sex": "m"}),
    "born here": PeopleGroup({"abroad": "no"}),
    "born abroad": PeopleGroup({"abroad": "yes"}),
    "adults, single": PeopleGroup({"married": "no"}, lower=18),
    "adults, married": PeopleGroup({"married": "yes"}, lower=18),
    "women born here": PeopleGroup({"sex": "f", "abroad": "no"}),
    "women born abroad": PeopleGroup({"sex": "f", "abroad": "yes"}),
    "men born here": PeopleGroup({"sex": "m", "abroad": "no"}),
    "men born abroad": PeopleGroup({"sex": "m", "abroad": "yes"}),
    "children": PeopleGroup(upper=17),
    "65 and older": PeopleGroup(lower=65),
}


def main(out: Path, noise: NoiseSource | None = None) -> Path:
    """Publishes, rebuilds, and says what is certain."""
    published = {name: _publish(group) for name, group in GROUPS.items()}
    show(
        "Published",
        ("group", "people", "median age", "mean age"),
        [
            (name, "suppressed", "", "")
            if line.count is None
            else (name, line.count, f"{line.median:g}", f"{line.mean:g}")
            for name, line in published.items()
        ],
    )
    attack = ConsistentTables(COLUMNS)
    men = PeopleColumns({}, "age", 1, 115)
    line = published["men"]
    triples = ConsistentTables(men).list_tables(
        [PublishedStatistic(PeopleGroup(), line.count, line.mean, line.median)]
    )
    certified = attack.certify(list(published.values()))
    print(
        f"\nThe line about the men leaves {len(triples)} possibilities. All lines together leave one table:\n"
    )
    show(
        "Certain: true in every table that agrees with what was published",
        ("sex", "born abroad", "married", "age", "true"),
        [(*person, "yes" if person in PEOPLE else "no") for person in certified.people],
    )
    guesses = [COLUMNS.cell(int(place)) for place in experiment(1).integers(0, len(COLUMNS), len(PEOPLE))]
    found = attack.run(list(published.values()), PEOPLE, guesses)
    print(f"\n{measure_recoveries(found)}")
    released = _release(noise or SecureNoise())
    show(
        "The same released at ε = 1: counts of a block of seven say little, and nothing about one person",
        ("group", "people", "mean age"),
        [(sex, *numbers) for sex, numbers in released.items()],
    )
    return save(_picture(triples), out, "census_block.png")


def _publish(group: PeopleGroup) -> PublishedStatistic:
    """What the office says of a group; of one or two people it says nothing."""
    inside = COLUMNS.members(group)
    ages = [person[-1] for person in PEOPLE if inside[COLUMNS.place(person)]]
    if len(ages) < 3:
        return PublishedStatistic(group, below=3)
    return PublishedStatistic(group, count=len(ages), mean=round(mean(ages), 1), median=float(median(ages)))


def _release(noise: NoiseSource) -> dict[str, tuple[str, str]]:
    names = {"f": "women", "m": "men"}
    table = polars.DataFrame(
        {"sex": [person[0] for person in PEOPLE], "age": [person[-1] for person in PEOPLE]}
    )
    statistics = (
        ("count", GroupBy("sex", Count(), ("f", "m"))),
        ("age", GroupBy("sex", Mean("age", 0, 115), ("f", "m"))),
    )
    plan = ReleasePlan(statistics=statistics, unit=None, budget=Budget(epsilon=1.0))
    answers = plan.run(table, noise=noise)
    counts, ages = dict(answers["count"].value), dict(answers["age"].value)
    bars = dict(answers["count"].error)
    return {names[sex]: (f"{counts[sex]} ± {bars[sex]}", f"{ages[sex]:.0f}") for sex in names}


def _picture(triples: tuple) -> Figure:
    figure, (men, block) = panels(2)
    true = sorted(person[-1] for person in PEOPLE if person[0] == "m")
    for triple in triples:
        men.plot(range(3), [row[-1] for row in triple], color=GREY, alpha=0.45, linewidth=1)
    men.plot(range(3), true, "o-", color=ORANGE, linewidth=2.2)
    men.set_xticks(range(3), ["youngest", "middle", "oldest"])
    men.text(0.05, true[0] + 22, "the truth", color=ORANGE)
    men.set(ylabel="age", ylim=(0, 116))
    men.set_title(f"The men: {len(triples)} possibilities from their own line")

    rows = {("f", "no"): 3, ("f", "yes"): 2, ("m", "no"): 1, ("m", "yes"): 0}
    for sex, abroad, married, age in PEOPLE:
        height = rows[sex, abroad]
        block.plot(
            age, height, "o", color=BLUE if married == "yes" else "white", markeredgecolor=BLUE, markersize=11
        )
        block.annotate(f"{age}", (age, height), (0, 10), textcoords="offset points", ha="center", color=INK)
    block.set_yticks(
        list(rows.values()), ["women, born here", "women, from abroad", "men, born here", "men, from abroad"]
    )
    block.set(xlabel="age (filled: married)", xlim=(0, 100), ylim=(-0.5, 3.6))
    block.set_title("All lines: seven of seven people are certain")
    return figure


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("examples-out"))
