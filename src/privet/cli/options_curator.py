"""Options of ``privet curator`` and of what it does: demo, serve, add-dataset, add-analyst, grant, export,
verify, selftest.
"""

import argparse

from privet.cli.option_types import parse_count, parse_number

__all__ = ["add_curator_options"]


def add_curator_options(command: argparse.ArgumentParser) -> None:
    """Options of ``privet curator``."""
    actions = command.add_subparsers(title="actions", metavar="action", dest="action", required=True)

    def add(name: str, purpose: str, *, steward: bool = True) -> argparse.ArgumentParser:
        action: argparse.ArgumentParser = actions.add_parser(
            name, help=purpose, description=f"{purpose[:1].upper()}{purpose[1:]}.", allow_abbrev=False
        )
        action.add_argument(
            "--json",
            action="store_true",
            default=argparse.SUPPRESS,
            help="print one JSON object instead of text",
        )
        if steward:
            action.add_argument("steward", metavar="steward.toml", help="the steward's file")
        return action

    _add_demo(
        add("demo", "a curator with invented data, on this machine, to be tried in a browser", steward=False)
    )
    add("serve", "run the curator of a steward's file until Ctrl-C")
    _add_dataset(add("add-dataset", "describe a dataset in the steward's file; the data stay where they are"))
    _add_analyst(add("add-analyst", "a new account, with a password or a key that is shown once"))
    _add_grant(add("grant", "let an analyst ask a dataset, or change a cap"))
    _add_export(add("export", "the evidence on a dataset, as JSON"))
    add("verify", "compute the chain and every spend anew; exit with 1 if something does not agree")
    _add_selftest(
        add(
            "selftest",
            "kill the curator at random while analysts ask, and count what was lost",
            steward=False,
        )
    )


def _add_demo(action: argparse.ArgumentParser) -> None:
    action.add_argument("--port", type=parse_count, default=8443, metavar="N", help="default: %(default)s")
    action.add_argument(
        "--folder",
        metavar="DIR",
        help="an empty folder to keep it in (default: a temporary one, removed at the end)",
    )


def _add_dataset(action: argparse.ArgumentParser) -> None:
    action.add_argument("name", help="letters, digits, '-' and '_'")
    where = action.add_mutually_exclusive_group(required=True)
    where.add_argument("--path", metavar="FILE", help=".csv or .parquet, relative to the steward's file")
    where.add_argument("--postgres", metavar="URL", help="postgresql://host/database?table=name")
    who = action.add_mutually_exclusive_group(required=True)
    who.add_argument("--unit", metavar="COLUMN", help="the column that says whose row it is")
    who.add_argument("--each-row-is-a-person", action="store_true", help="nobody has two rows")
    action.add_argument(
        "--rows", type=parse_count, metavar="N", help="rows of a person that count in a group"
    )
    action.add_argument("--groups", type=parse_count, metavar="N", help="groups in which a person counts")
    action.add_argument(
        "--column",
        action="append",
        required=True,
        metavar="NAME:TYPE[:LOWER:UPPER|:KEY,KEY]",
        help="a public column, such as age:whole:0:100, ward:text:surgery,medicine or smoker:truth; "
        "repeat it. Bounds and keys are what is known beforehand, never what is in the data",
    )
    action.add_argument(
        "--epsilon", type=parse_number, required=True, metavar="ε", help="the cap of everybody together"
    )
    action.add_argument(
        "--delta", type=parse_number, required=True, metavar="δ", help="of the cap; 0 for pure noise only"
    )
    action.add_argument("--description", default="", metavar="TEXT", help="what analysts read")
    action.add_argument(
        "--refresh",
        choices=("never", "continue"),
        help="whether other content is refused, or draws on the same budget",
    )


def _add_analyst(action: argparse.ArgumentParser) -> None:
    action.add_argument("name", help="of the account")
    action.add_argument(
        "--role", choices=("analyst", "steward", "auditor"), default="analyst", help="default: %(default)s"
    )
    action.add_argument(
        "--group", metavar="NAME", help="of analysts who share what they learn; made if missing"
    )
    action.add_argument("--email", metavar="ADDRESS", help="who may claim the account by OpenID Connect")
    action.add_argument(
        "--password-file", metavar="FILE", help="the password (default: one is drawn and shown)"
    )
    action.add_argument("--key", action="store_true", help="make a key for programs, too")


def _add_grant(action: argparse.ArgumentParser) -> None:
    action.add_argument("analyst", help="the name of the account")
    action.add_argument("dataset", help="the name of the dataset")
    action.add_argument(
        "--epsilon", type=parse_number, metavar="ε", help="their cap (default: that of the dataset)"
    )
    action.add_argument(
        "--delta", type=parse_number, default=0.0, metavar="δ", help="of their cap (default: 0)"
    )
    action.add_argument("--reason", default="granted", metavar="TEXT", help="stands in the chain")


def _add_export(action: argparse.ArgumentParser) -> None:
    action.add_argument("dataset", help="the name of the dataset")
    action.add_argument("--out", metavar="FILE.json", help="where to write it (default: print it)")
    action.add_argument(
        "--registry", action="store_true", help="only the entry for OpenDP's registry of deployments"
    )


def _add_selftest(action: argparse.ArgumentParser) -> None:
    action.add_argument("--kills", type=parse_count, default=20, metavar="N", help="default: %(default)s")
    action.add_argument("--analysts", type=parse_count, default=8, metavar="M", help="default: %(default)s")
    action.add_argument(
        "--database",
        metavar="ADDRESS",
        help="an empty database of SQLAlchemy (default: a temporary SQLite file)",
    )
