"""A curator with invented data, to be tried: one command, one page, nothing to configure."""

import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from privet.curator.accounts import Credentials, open_accounts
from privet.curator.accounts.secrets_of_login import draw_password
from privet.curator.principals import Principal, Role
from privet.curator.serving.installation import Installation, read_installation
from privet.curator.serving.ledger_side import LedgerDirectory
from privet.curator.storage import HeadExport, Stewardship, open_database
from privet.datasets.hospital import WARDS, invent_visits
from privet.errors import InvalidArgument
from privet.releasing import Budget

__all__ = ["Demonstration", "grant_analysts", "prepare_demonstration"]

_PATIENTS = 20_000
_ACCOUNTS = (("ann", Role.ANALYST), ("ben", Role.ANALYST), ("stella", Role.STEWARD), ("otto", Role.AUDITOR))
_STEWARD_FILE = """\
version = 1

[curator.gateway]
port = {port}

[curator.database]                   # in a folder of its own, so that the gateway can be refused the data
address = "sqlite:///ledger/curator.db"
head = "ledger/curator.heads"

[datasets.visits]
description = "Visits to an invented hospital, 2021 to 2025. Nobody's data."
path = "data/visits.parquet"
unit = "patient"
rows = 2
groups = 2
budget = {{ epsilon = 3.0, delta = 1e-7 }}
limits = {{ epsilon = 1.0, delta = 1e-8 }}

[datasets.visits.columns]
age = {{ type = "whole", lower = 0, upper = 100, description = "in years" }}
sex = {{ type = "text", keys = ["f", "m"] }}
ward = {{ type = "text", keys = [{wards}] }}
year = {{ type = "whole", lower = 2021, upper = 2025, keys = [2021, 2022, 2023, 2024, 2025] }}
days = {{ type = "whole", lower = 0, upper = 30, description = "length of the stay" }}
cost = {{ type = "number", lower = 0, upper = 10000, description = "in euros" }}
smoker = {{ type = "truth" }}
"""


@final
@dataclass(frozen=True, kw_only=True)
class Demonstration:
    """What was prepared: the installation, and the accounts with their passwords."""

    installation: Installation
    accounts: tuple[tuple[str, Role, str], ...]
    hints: Path


def prepare_demonstration(folder: Path, *, port: int) -> Demonstration:
    """Write invented data, a steward's file and accounts into an empty folder."""
    import polars as pl

    if any(folder.iterdir()):
        raise InvalidArgument(
            f"'folder' must be empty, and {str(folder)!r} is not. Name another, or run 'privet curator "
            f"serve' on the "
            "steward's file in it."
        )
    for name in ("data", "ledger"):
        (folder / name).mkdir(mode=0o700)
    generator = np.random.default_rng(secrets.randbits(64))
    pl.DataFrame(dict(invent_visits(_PATIENTS, generator))).write_parquet(folder / "data" / "visits.parquet")
    steward_file = folder / "steward.toml"
    wards = ", ".join(json.dumps(ward) for ward in WARDS)
    steward_file.write_text(_STEWARD_FILE.format(port=port, wards=wards), encoding="utf-8")
    installation = read_installation(steward_file)
    accounts = tuple((name, role, draw_password()) for name, role in _ACCOUNTS)
    hints = folder / "ledger" / "passwords.json"
    hints.write_text(json.dumps([[name, password] for name, _, password in accounts]), encoding="utf-8")
    hints.chmod(0o600)
    _add_accounts(installation, installation.make_heads(), accounts)
    return Demonstration(installation=installation, accounts=accounts, hints=hints)


def grant_analysts(demonstration: Demonstration) -> None:
    """Let the analysts ask. The dataset is in the ledger only after the first start.

    Their caps together are above that of the dataset, which is the true one.
    """
    installation = demonstration.installation
    database = open_database(installation.database_address)
    try:
        stewardship = Stewardship(database, installation.make_heads(), by="demonstration")
        for name, role, _ in demonstration.accounts:
            if role is Role.ANALYST:
                stewardship.grant(name, "visits", cap=Budget(epsilon=2.0, delta=1e-7))
    finally:
        database.close()


def _add_accounts(
    installation: Installation, heads: HeadExport, accounts: tuple[tuple[str, Role, str], ...]
) -> None:
    database = open_database(installation.database_address)
    try:
        stewardship = Stewardship(database, heads, by="demonstration")
        added: list[tuple[Principal, str]] = [
            (stewardship.add_account(name, role), password) for name, role, password in accounts
        ]
        engine = open_accounts(installation.accounts_address)
        credentials = Credentials(engine, LedgerDirectory(stewardship))
        for principal, password in added:
            credentials.set_password(principal.account, password)
        engine.dispose()
    finally:
        database.close()
