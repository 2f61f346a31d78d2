"""``privet curator add-dataset``, ``add-analyst`` and ``grant``: what stewards do, while the curator runs
or not.
"""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from privet.cli.output import CliAnswer, facts, paragraph
from privet.curator.accounts import Credentials, ProgramKeys, open_accounts
from privet.curator.accounts.secrets_of_login import check_password, draw_password
from privet.curator.principals import Role
from privet.curator.questions.steward_file import append_dataset
from privet.curator.serving.installation import Installation, read_installation
from privet.curator.serving.ledger_side import LedgerDirectory, set_analyst_cap
from privet.curator.storage import Stewardship, open_database
from privet.errors import InvalidArgument, Unreadable
from privet.releasing import Budget

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> CliAnswer:
    """Do one of the three."""
    os.umask(0o077)
    match arguments.action:
        case "add-dataset":
            return _add_dataset(arguments)
        case "add-analyst":
            return _add_analyst(arguments)
    return _grant(arguments)


def _add_dataset(arguments: argparse.Namespace) -> CliAnswer:
    entry: dict[str, Any] = {"description": arguments.description or arguments.name}
    for name in ("path", "postgres", "unit", "rows", "groups", "refresh"):
        value = getattr(arguments, name)
        if value is not None:
            entry[name] = value
    if arguments.each_row_is_a_person:
        entry["each_row_is_a_person"] = True
    entry["budget"] = {"epsilon": arguments.epsilon, "delta": arguments.delta}
    entry["columns"] = dict(_read_column(words) for words in arguments.column)
    append_dataset(Path(arguments.steward), arguments.name, entry)
    return CliAnswer(
        [
            paragraph(
                f"{arguments.name!r} stands in {arguments.steward}. A curator that runs reads it after "
                f"SIGHUP; the "
                "ledger has it from the next start on. Read the file: bounds and keys must come from "
                "what is known "
                "about the subject, never from the rows."
            )
        ],
        {"dataset": arguments.name, "steward_file": arguments.steward},
    )


def _read_column(words: str) -> tuple[str, dict[str, Any]]:
    name, *rest = words.split(":")
    match rest:
        case [kind]:
            return name, {"type": kind}
        case [kind, keys]:
            listed: list[Any] = keys.split(",")
            if kind in ("whole", "number"):
                listed = [_read_number(words, key) for key in listed]
            return name, {"type": kind, "keys": listed}
        case [kind, lower, upper]:
            return name, {
                "type": kind,
                "lower": _read_number(words, lower),
                "upper": _read_number(words, upper),
            }
    raise InvalidArgument(
        f"--column must be NAME:TYPE, NAME:TYPE:LOWER:UPPER or NAME:TYPE:KEY,KEY, got {words!r}. Write "
        f"age:whole:0:100."
    )


def _read_number(words: str, text: str) -> float | int:
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        raise InvalidArgument(
            f"--column {words!r} must have numbers there, got {text!r}. Correct it."
        ) from None


def _add_analyst(arguments: argparse.Namespace) -> CliAnswer:
    password = _read_password(arguments.password_file)
    with _open(read_installation(Path(arguments.steward))) as (installation, stewardship):
        if arguments.group is not None:
            _require_group(stewardship, arguments.group)
        account = stewardship.add_account(arguments.name, Role(arguments.role), group=arguments.group)
        engine = open_accounts(installation.accounts_address)
        directory = LedgerDirectory(stewardship)
        credentials = Credentials(engine, directory)
        drawn = draw_password() if password is None else password
        credentials.set_password(account.account, drawn)
        if arguments.email is not None:
            credentials.set_email(account.account, arguments.email)
        key = (
            ProgramKeys(engine, directory).issue(account.account, label="command line")
            if arguments.key
            else None
        )
        engine.dispose()
    rows = [("account", f"{account.name}, {account.role}")]
    if password is None:
        rows.append(("password", drawn))
    if key is not None:
        rows.append(("key", key))
    blocks = [facts(rows), paragraph("Passwords and keys are shown once, and stored as hashes only.")]
    if account.role is Role.ANALYST:
        blocks.append(f"Next: privet curator grant {arguments.steward} {account.name} DATASET --epsilon 1")
    document = {"account": account.name, "role": str(account.role), "key": key}
    return CliAnswer(blocks, document | ({"password": drawn} if password is None else {}))


def _grant(arguments: argparse.Namespace) -> CliAnswer:
    with _open(read_installation(Path(arguments.steward))) as (_, stewardship):
        if arguments.epsilon is None:
            stewardship.grant(arguments.analyst, arguments.dataset)
            cap = "that of the dataset"
        else:
            budget = Budget(epsilon=arguments.epsilon, delta=arguments.delta)
            set_analyst_cap(
                stewardship, arguments.dataset, arguments.analyst, budget, reason=arguments.reason
            )
            cap = f"ε = {arguments.epsilon:g}, δ = {arguments.delta:g}"
    return CliAnswer(
        [facts([("analyst", arguments.analyst), ("may ask", arguments.dataset), ("cap", cap)])],
        {
            "analyst": arguments.analyst,
            "dataset": arguments.dataset,
            "epsilon": arguments.epsilon,
            "delta": None if arguments.epsilon is None else arguments.delta,
        },
    )


@contextmanager
def _open(installation: Installation) -> Iterator[tuple[Installation, Stewardship]]:
    database = open_database(installation.database_address)
    try:
        yield installation, Stewardship(database, installation.make_heads())
    finally:
        database.close()


def _require_group(stewardship: Stewardship, name: str) -> None:
    if all(card.group != name for card in stewardship.list_accounts()):
        try:
            stewardship.add_group(name)
        except InvalidArgument:
            return  # it is there, and has no account yet


def _read_password(file: str | None) -> str | None:
    if file is None:
        return None
    try:
        return check_password(Path(file).read_text(encoding="utf-8").strip())
    except (OSError, UnicodeDecodeError):
        raise Unreadable(
            f"--password-file must be a text that can be read, and {file!r} is not. Check it."
        ) from None
