"""Three attacks on a live curator: with its budget switched off they recover everybody's secret, with it on they cannot.

A hundred people have a secret bit, a fair coin. An analyst who may ask counts, and nothing else, wants all bits:

- *averaging*: one person's bit, asked in several wordings that the curator cannot know to mean the same;
- *differencing*: how many bits are set, and how many without one person: the whole cap for one bit, on a table of its own
  for each person;
- *Dinur and Nissim*: how many are set in each of many random halves of the people.

Each attack has a curator of its own, with its database, gateway and worker, and asks over HTTP through ``privet.curator.Client``
(with ``--in-process``, through the same protocol without the network, which is quicker).
Its analyst divides the cap equally among all the questions: one more is refused. The ceiling is that of what was spent: a
bit is a fair coin, so a hit is a test of whether that person is in the data, with a false-positive rate of one half. The
curve in the picture is the ceiling of the cap itself, which holds for every analyst, however they ask.

    python bench/curator/under_attack.py [--people N] [--in-process] [--json FILE] [--picture FILE]
"""

import argparse
import json
import secrets
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

import privet
from privet.attacks.reconstruction import Averaging, Differencing, LeastSquares, SecretNumber, SubsetSums
from privet.curator import Client
from privet.curator.accounts import ProgramKeys, open_accounts
from privet.curator.principals import Role
from privet.curator.questions.planner import MetadataPlanner
from privet.curator.questions.steward_file import format_dataset
from privet.curator.serving.installation import read_installation
from privet.curator.serving.ledger_side import LedgerDirectory
from privet.curator.serving.supervisor import run_curator
from privet.curator.storage import DatabaseCurator, HeadFile, Stewardship, open_database
from privet.curator.worker.answering import TableWorker
from privet.curator.worker.data_sources import DataSources
from privet.errors import BudgetExceeded
from privet.events import Compose
from privet.recoveries import Recoveries
from privet.releasing import Budget

CAPS = (0.5, 1.0, 2.0, 4.0)
OFF, OFF_QUESTION = 1e6, 20.0  # a cap that is never reached, and ε of each question then
WORDINGS = 4
BIT = SecretNumber(values=(0, 1))


@dataclass
class Curator:
    """A live curator of tables of bits, with one analyst; ``ask`` answers a question about a dataset."""

    ask: Callable[[str, dict[str, object]], float]
    epsilon: float

    def count(self, where: dict[str, object] | None = None, *, table: int = 0) -> float:
        """How many bits are set among the people that pass."""
        bit = {"column": "bit", "in": [1]}
        question = {
            "version": 1,
            "statistics": [{"kind": "count"}],
            "where": bit if where is None else {"all": [bit, where]},
            "epsilon": self.epsilon,
        }
        return self.ask(f"bits{table}", question)

    def is_exhausted(self) -> bool:
        """Whether one question more is refused."""
        try:
            self.count({"column": "code", "at_least": 10**7})
        except BudgetExceeded:
            return True
        return False


def write_folder(folder: Path, tables: list[np.ndarray], *, cap: float) -> Path:
    """The tables, and a steward's file with a cap for each."""
    for part in (folder, folder / "data", folder / "ledger"):
        part.mkdir()
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    text = f"version = 1\n[curator.gateway]\nport = {port}\nquestions_per_minute = 1000000\n"
    text += '[curator.database]\naddress = "sqlite:///ledger/curator.db"\nhead = "ledger/heads"\n'
    for number, bits in enumerate(tables):
        codes = np.arange(len(bits))
        pl.DataFrame({"person": codes, "code": codes, "bit": bits}).write_parquet(
            folder / "data" / f"bits{number}.parquet"
        )
        text += format_dataset(
            f"bits{number}",
            {
                "path": f"data/bits{number}.parquet",
                "unit": "person",
                "rows": 1,
                "groups": 1,
                "kinds": ["count"],
                "budget": {"epsilon": cap, "delta": 0.0},
                "limits": {"epsilon": max(cap, 1.0), "delta": 0.0},
                "columns": {"code": {"type": "whole"}, "bit": {"type": "whole", "keys": [0, 1]}},
            },
        )
    (folder / "steward.toml").write_text(text)
    return folder / "steward.toml"


@contextmanager
def open_over_http(
    folder: Path, tables: list[np.ndarray], *, cap: float, epsilon: float
) -> Iterator[Curator]:
    """Gateway and worker in processes of their own, asked by the client."""
    installation = read_installation(write_folder(folder, tables, cap=cap))
    with run_curator(installation) as running:
        database = open_database(installation.database_address)
        try:
            steward = Stewardship(database, installation.make_heads(), by="bench")
            account = steward.add_account("eve", Role.ANALYST)
            engine = open_accounts(installation.accounts_address)
            key = ProgramKeys(engine, LedgerDirectory(steward)).issue(account.account, label="bench")
            engine.dispose()
            for number in range(len(tables)):
                steward.grant("eve", f"bits{number}")
        finally:
            database.close()
        with Client(running.address, key=key) as client:
            yield Curator(
                lambda name, question: float(client.ask(question, dataset=name)["count"].value), epsilon
            )


@contextmanager
def open_in_process(
    folder: Path, tables: list[np.ndarray], *, cap: float, epsilon: float
) -> Iterator[Curator]:
    """The protocol over its database, without gateway and network."""
    planner = MetadataPlanner.of_file(write_folder(folder, tables, cap=cap))
    worker = TableWorker(planner.stewardship, DataSources(secrets.token_bytes(32)))
    service = DatabaseCurator.open(
        f"sqlite:///{folder}/ledger/curator.db",
        planner=planner,
        worker=worker,
        heads=HeadFile(folder / "heads"),
    )
    steward = Stewardship(service.database, service.heads)
    analyst = steward.add_analyst("eve")
    for name, metadata in planner.stewardship.datasets.items():
        steward.add_dataset(
            name,
            fingerprint=worker.fingerprint(name),
            adjacency=metadata.adjacency,
            unit_column=metadata.unit,
            cap=Budget(epsilon=cap),
        )
        steward.grant("eve", name)

    def ask(name: str, question: dict[str, object]) -> float:
        record = service.ask(analyst, name, question, idempotency_key=secrets.token_hex(8))
        assert record.answer is not None
        return float(record.answer["answers"][0]["value"])

    try:
        yield Curator(ask, epsilon)
    finally:
        service.close()


def average(curator: Curator, tables: list[np.ndarray]) -> Recoveries:
    """Each person's bit in several wordings."""
    (bits,) = tables
    answers = [
        [
            curator.count(
                {"all": [{"column": "code", "in": [person]}, {"column": "code", "above": -1 - wording}]}
            )
            for wording in range(WORDINGS)
        ]
        for person in range(len(bits))
    ]
    return Averaging(BIT).run(np.array(answers), bits, candidates=2)


def take_differences(curator: Curator, tables: list[np.ndarray]) -> Recoveries:
    """Everybody, and everybody but the first person of each table."""
    places = range(len(tables))
    everybody = [curator.count(table=place) for place in places]
    others = [curator.count({"not": {"column": "code", "in": [0]}}, table=place) for place in places]
    bits = np.array([table[0] for table in tables])
    return Differencing(BIT).run(np.array(everybody), np.array(others), bits, candidates=2)


def reconstruct(curator: Curator, tables: list[np.ndarray]) -> Recoveries:
    """Random halves, and least squares."""
    (bits,) = tables
    queries = np.random.default_rng(5).integers(0, 2, (3 * len(bits), len(bits)))
    answers = [curator.count({"column": "code", "in": np.flatnonzero(query).tolist()}) for query in queries]
    noise = np.sqrt(2) / curator.epsilon
    return LeastSquares().run(SubsetSums(queries, np.array(answers), noise=noise), bits, candidates=2)


Opened = Callable[..., AbstractContextManager[Curator]]
Attack = Callable[[Curator, list[np.ndarray]], Recoveries]
ATTACKS: dict[str, tuple[Attack, Callable[[int], int]]] = {  # with the number of questions about a table
    "averaging": (average, lambda people: WORDINGS * people),
    "differencing": (take_differences, lambda people: 2),
    "Dinur and Nissim": (reconstruct, lambda people: 3 * people),
}


def main(words: list[str]) -> int:
    """Attack at every cap, and with none."""
    parser = argparse.ArgumentParser(description="Three attacks on a live curator")
    parser.add_argument("--people", type=int, default=100)
    parser.add_argument("--caps", type=float, nargs="+", default=CAPS)
    parser.add_argument("--in-process", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args(words)
    draw_bits = np.random.default_rng(2)
    tables = [draw_bits.integers(0, 2, options.people) for _ in range(options.people)]
    rows = []
    for cap in (*options.caps, OFF):
        for name, (attack, count) in ATTACKS.items():
            given = tables if attack is take_differences else tables[:1]
            opened = open_in_process if options.in_process else open_over_http
            rows.append(run(name, attack, opened, given, cap=cap, questions=count(options.people)))
            print(describe(rows[-1]), flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1))
    if options.picture is not None:
        draw(rows, options.picture, options.people)
    return 1 if any(row["recovered"] > row["ceiling"] + row["luck"] for row in rows) else 0


def run(
    name: str, attack: Attack, opened: Opened, tables: list[np.ndarray], *, cap: float, questions: int
) -> dict[str, float | str | bool]:
    """One attack on a curator of its own."""
    epsilon = OFF_QUESTION if cap == OFF else cap / questions * (1 - 1e-9)
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "c"
        with opened(folder, tables, cap=cap, epsilon=epsilon) as curator:
            began = time.monotonic()
            found = attack(curator, tables)
            seconds = time.monotonic() - began
            exhausted = curator.is_exhausted()
        planned = MetadataPlanner.of_file(folder / "steward.toml").plan(
            "bits0", {"version": 1, "statistics": [{"kind": "count"}], "epsilon": epsilon}
        )
        spent = Compose(tuple(entry.event for _ in range(questions) for entry in planned.entries))
        ceiling = privet.account(spent, adjacency=planned.adjacency).tpr(fpr=0.5)
    recovered = float(np.mean(found.hits))
    return {
        "attack": name,
        "cap": cap,
        "questions": questions,
        "recovered": recovered,
        "ceiling": min(float(ceiling), 1.0),
        "luck": 2.58 * 0.5 / np.sqrt(len(found.hits)),  # 99 % of draws of the noise stay within it
        "refused_after": exhausted,
        "seconds": round(seconds, 1),
    }


def describe(row: dict[str, float | str | bool]) -> str:
    """One line of the table."""
    cap = "off" if row["cap"] == OFF else f"{row['cap']:g}"
    return (
        f"{row['attack']:<17} budget {cap:>4}  {row['questions']:>4} questions  recovered {row['recovered']:6.1%}  "
        f"ceiling {row['ceiling']:6.1%}  one more is {'refused' if row['refused_after'] else 'answered'}  "
        f"{row['seconds']} s"
    )


def draw(rows: list[dict[str, float | str | bool]], path: Path, people: int) -> None:
    """Recovered bits against the cap, beneath the ceiling; at the right, with the budget switched off."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
    from style import BLUE, GREEN, GREY, INK, ORANGE, panels

    figure, (axes,) = panels(1)
    caps = sorted({row["cap"] for row in rows})
    places = {cap: place for place, cap in enumerate(caps)}
    fine = np.linspace(0, len(caps) - 2, 60)
    limits = np.exp(np.interp(fine, range(len(caps) - 1), np.log(caps[:-1])))
    axes.plot(
        fine,
        100 * np.minimum(1 - np.exp(-limits) / 2, np.exp(limits) / 2),
        color=GREEN,
        label="proved ceiling",
    )
    for shift, ((name, _), color, mark) in enumerate(
        zip(ATTACKS.items(), (ORANGE, BLUE, INK), "os^", strict=True)
    ):
        mine = [row for row in rows if row["attack"] == name]
        x = [places[row["cap"]] + (shift - 1) * 0.13 for row in mine]
        share = np.array([row["recovered"] for row in mine])
        luck = 196 * np.sqrt(share * (1 - share) / people)
        axes.errorbar(x, 100 * share, luck, fmt=mark, color=color, markersize=6, elinewidth=1, label=name)
    axes.axhline(50, color=GREY, linestyle=":", label="blind guess")
    axes.axvline(len(caps) - 1.5, color=GREY, linewidth=0.8)
    axes.set_xticks(range(len(caps)), [*(f"{cap:g}" for cap in caps[:-1]), "switched off"])
    axes.set(
        xlabel="the dataset's cap, ε",
        ylabel="secret bits recovered, %",
        ylim=(33, 104),
        xlim=(-0.5, len(caps) - 0.5),
    )
    axes.set_title(f"A curator under attack: the bits of {people} people")
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=9)
    figure.savefig(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
