"""Options of the commands on tables: ``release``, ``synthesize``, ``ledger`` and ``audit-table``."""

import argparse
from typing import final

from privet.cli.option_types import parse_count, parse_number, parse_seed

__all__ = [
    "add_audit_table_options",
    "add_ledger_options",
    "add_release_options",
    "add_synthesize_options",
]

_STATISTICS = (
    ("count", "", "how many there are"),
    ("sum", "COL:LOW:HIGH", "the sum of values, each held between two bounds that you know beforehand"),
    ("mean", "COL:LOW:HIGH", "their mean"),
    ("variance", "COL:LOW:HIGH", "their variance"),
    (
        "covariance",
        "COL:LOW:HIGH;COL:LOW:HIGH",
        "the covariance of two columns, of rows that have both values",
    ),
    ("quantile", "COL:Q:LOW:HIGH", "the value that a share Q of them is below; 0.5 is the median"),
    ("histogram", "COL:A,B,…", "how many have each of these values"),
    ("marginal", "COL:A,B;COL:C,D", "how many have each combination of these values"),
    ("top-k", "COL:K:A,B,…", "the K most frequent of these values"),
)


def add_release_options(command: argparse.ArgumentParser) -> None:
    """Options of ``privet release``."""
    command.add_argument("data", help="a table: .csv, .parquet, or postgresql://…/database?table=NAME")
    command.add_argument(
        "--privacy-unit", metavar="COLUMN", help="who is protected: everyone whom this column names"
    )
    asked = command.add_argument_group("statistics (one or more, each as often as you like)")
    for name, form, purpose in _STATISTICS:
        asked.add_argument(
            f"--{name}",
            action=_AppendPair,
            dest="statistics",
            metavar=form,
            nargs=None if form else 0,
            help=purpose,
        )
    asked.add_argument(
        "--group-by",
        metavar="COL[:KEY,…]",
        help="each count, sum, mean … once for every key; keys that are not listed are found, which needs "
        "--delta",
    )
    spent = command.add_argument_group("what it may cost")
    spent.add_argument(
        "--epsilon", type=parse_number, metavar="ε", help="for all statistics of this release together"
    )
    spent.add_argument(
        "--delta", type=parse_number, metavar="δ", help="failure probability (default: 0, none)"
    )
    spent.add_argument(
        "--split", metavar="W,W…", help="how ε is shared, a weight for each statistic (default: evenly)"
    )
    spent.add_argument(
        "--quote", action="store_true", help="tell the cost and the expected error, and read no row"
    )
    spent.add_argument(
        "--rehearse",
        action="store_true",
        help="attack the planned answers on stand-in people, at half of ε, ε and double, and read no row",
    )
    spent.add_argument(
        "--ledger",
        metavar="FILE.json",
        help="write there what is spent, before it is answered; made if missing",
    )
    spent.add_argument(
        "--budget",
        metavar="ε[:δ]",
        help="refuse what would take the ledger beyond this (δ: that of --delta); given once, the ledger "
        "keeps it",
    )
    bounds = command.add_argument_group("how much of one person counts")
    bounds.add_argument("--rows-per-person", type=parse_count, metavar="N", help="in one group (default: 1)")
    bounds.add_argument(
        "--groups-per-person", type=parse_count, metavar="N", help="with --group-by (default: 1)"
    )
    command.add_argument(
        "--answer-after",
        type=parse_number,
        metavar="SECONDS",
        help="answer this many seconds after the table is opened, whatever is in it, and fail if it takes "
        "longer: a defence against timing",
    )
    command.add_argument(
        "--confidence", type=parse_number, metavar="P", help="of the error bars (default: 0.95)"
    )
    command.add_argument("--adjacency", metavar="R", help="add-remove (the default), replace-one or zero-out")
    command.add_argument(
        "--population",
        type=parse_count,
        metavar="n",
        help="number of people, to check that δ is small enough for it",
    )


def add_synthesize_options(command: argparse.ArgumentParser) -> None:
    """Options of ``privet synthesize``."""
    command.add_argument("data", help="a table, as .csv or .parquet")
    command.add_argument(
        "--privacy-unit", metavar="COLUMN", help="who is protected: everyone whom this column names"
    )
    domain = command.add_argument_group(
        "the domain, from public knowledge (one or more, each as often as you like)"
    )
    for name, form, purpose in (
        ("column", "COL:A,B,…", "a column with these values; rows with another value are left out"),
        ("bins", "COL:LOW:HIGH:N", "a column of numbers, cut into N bins between two bounds"),
    ):
        domain.add_argument(f"--{name}", action=_AppendPair, dest="columns", metavar=form, help=purpose)
    cost = command.add_argument_group("what it may cost")
    cost.add_argument("--epsilon", type=parse_number, metavar="ε", help="of the whole table")
    cost.add_argument("--delta", type=parse_number, metavar="δ", help="failure probability, far below 1/n")
    cost.add_argument("--adjacency", metavar="R", help="add-remove (the default), replace-one or zero-out")
    command.add_argument(
        "--method",
        choices=("aim", "mst", "mwem"),
        default="aim",
        help="which algorithm (default: %(default)s)",
    )
    command.add_argument(
        "--order",
        type=int,
        choices=(1, 2, 3),
        default=2,
        help="aim and mwem fit marginals of so many columns (default: %(default)s)",
    )
    command.add_argument(
        "--rows", type=parse_count, metavar="N", help="rows to draw (default: the estimated number)"
    )
    command.add_argument("--seed", type=parse_seed, metavar="N", help="of the draw, not of the privacy noise")
    command.add_argument(
        "--out", metavar="FILE", required=True, help="the synthetic table: a new .csv or .parquet file"
    )
    command.add_argument(
        "--ledger", metavar="FILE.json", help="a new file for the ledger (default: OUT.ledger.json)"
    )


def add_ledger_options(command: argparse.ArgumentParser) -> None:
    """Options of ``privet ledger``."""
    command.add_argument("ledger", help="the file that --ledger of a release names")
    command.add_argument(
        "--change-budget",
        metavar="ε[:δ]",
        help="give it another budget, at least what was spent; the ledger keeps a record, and says that "
        "the budget came late",
    )
    command.add_argument("--reason", metavar="TEXT", help="why; written into the ledger")
    command.add_argument(
        "--beyond",
        metavar="HEAD",
        help="exit with 1 if the ledger is behind this head, as after a restored backup; note the head "
        "that this command shows",
    )


@final
class _AppendPair(argparse.Action):
    """Collect several options in one list of (option, value), in the order of the command line."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        del parser
        option = (option_string or "").removeprefix("--")
        value = values if isinstance(values, str) else ""
        collected = getattr(namespace, self.dest) or []
        setattr(namespace, self.dest, [*collected, (option, value)])


def add_audit_table_options(command: argparse.ArgumentParser) -> None:
    """Options of ``privet audit-table``."""
    command.add_argument("data", help="the table that is to be published, as .csv or .parquet")
    command.add_argument(
        "--quasi",
        metavar="A,B…",
        help="quasi-identifiers: the columns that others can know of a person, such as zip,birth,sex",
    )
    command.add_argument("--secret", metavar="COLUMN", help="the column that others must not learn")
    command.add_argument(
        "--largest-set",
        type=parse_count,
        metavar="N",
        help="measure sets of up to N quasi-identifiers (default: 4, fewer where that is over 1,000 sets)",
    )
    known = command.add_argument_group("what else an adversary has")
    known.add_argument(
        "--with", dest="other", metavar="FILE", help="a second table about some of the same people"
    )
    known.add_argument(
        "--key",
        metavar="COLUMN",
        help="with --with: the column of both that says who is who; hidden from attacks",
    )
    synthetic = command.add_argument_group("where the table is synthetic")
    synthetic.add_argument("--original", metavar="FILE", help="the table that it was made of")
    synthetic.add_argument("--control", metavar="FILE", help="people of the same kind who were not in it")
    people = command.add_argument_group("who the rows are of")
    people.add_argument(
        "--sampling-fraction",
        type=parse_number,
        metavar="P",
        help="the table is a random sample of this share of the population",
    )
    people.add_argument(
        "--population", metavar="FILE", help="a table of everybody with the same columns, for δ-presence"
    )
    claim = command.add_argument_group("what was claimed")
    claim.add_argument(
        "--ledger", metavar="FILE.json", help="what was spent on the table, for the ceiling of every attack"
    )
    claim.add_argument("--delta", type=parse_number, metavar="δ", help="of both bounds (default: 1e-5)")
    claim.add_argument(
        "--confidence", type=parse_number, metavar="P", help="of all statements together (default: 0.95)"
    )
    claim.add_argument(
        "--seed", type=parse_seed, metavar="N", help="of the coins that leave people out (default: 0)"
    )
    output = command.add_argument_group("what comes out")
    output.add_argument("--name", metavar="TEXT", help="what to call the table (default: its file)")
    output.add_argument(
        "--out", metavar="FILE", help="the report: .html, .json, .md, .dpia.html or .pia.json"
    )
    output.add_argument(
        "--fingerprint-key",
        metavar="FILE",
        help="the key of the report's fingerprints; made if missing (default: beside --out, "
        "REPORT.fingerprints.key)",
    )
    output.add_argument(
        "--fail-above",
        action="append",
        metavar="FIGURE=LIMIT",
        help="exit with 1 above it: unique=0.01, leak=0.1, epsilon=3 or detected; repeat it",
    )
