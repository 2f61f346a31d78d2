"""The gateway's process: ``python -m privet.curator.serving --steward steward.toml --socket …/worker.sock``.

It has accounts, plans and the ledger. It asks the worker over a local socket, and the kernel refuses it the
data.
"""

import argparse
import json
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from privet.curator.accounts import BudgetRequests, Credentials, LoginSessions, ProgramKeys, open_accounts
from privet.curator.accounts.openid import OpenIdLogin
from privet.curator.gateway.application import make_application
from privet.curator.gateway.parts import GatewayParts
from privet.curator.questions.metadata import DatasetMetadata
from privet.curator.questions.planner import MetadataPlanner
from privet.curator.serving.confined_gateway import refuse_files
from privet.curator.serving.installation import Installation, read_installation
from privet.curator.serving.ledger_side import LedgerActions, LedgerDirectory
from privet.curator.storage import DatabaseCurator, Stewardship
from privet.curator.worker.process_worker import ProcessWorker
from privet.errors import PrivetError
from privet.releasing import Budget

__all__ = ["declare_datasets", "main"]

_REFUSED = 2


def main(words: Sequence[str]) -> int:
    """Serve until a signal. One line on the descriptor ``--ready`` says whether it is ready."""
    options = _read_options(words)
    os.umask(0o077)
    try:
        installation = read_installation(options.steward)
        planner = MetadataPlanner.of_file(installation.steward_file)
        datasets = tuple(planner.stewardship.datasets.values())
        hidden = [path for dataset in datasets for path in _files(dataset)]
        confined = refuse_files([*hidden, *_salt(installation)], writable=_own_folders(installation))
        worker = ProcessWorker(installation.steward_file, socket_path=options.socket, start=False)
        parts = _assemble(installation, planner, worker, hints=_read_hints(options.hints))
    except PrivetError as refused:  # about files and metadata, which are public
        _report(options.ready, {"ready": False, "error": str(refused)})
        return _REFUSED
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s", stream=sys.stderr)
    for name in ("httpx", "httpcore", "alembic", "sqlalchemy"):  # they would write addresses
        logging.getLogger(name).setLevel(logging.ERROR)
    _report(
        options.ready, {"ready": True, "address": installation.settings.address, "cannot_open_data": confined}
    )
    _run(installation, parts)
    return 0


def _assemble(
    installation: Installation,
    planner: MetadataPlanner,
    worker: ProcessWorker,
    *,
    hints: tuple[tuple[str, str], ...],
) -> GatewayParts:
    heads = installation.make_heads()
    service = DatabaseCurator.open(installation.database_address, planner=planner, worker=worker, heads=heads)
    stewardship = Stewardship(service.database, heads, by="start")
    if not service.read_only:
        declare_datasets(stewardship, planner, worker)
    engine, directory = open_accounts(installation.accounts_address), LedgerDirectory(stewardship)
    openid = installation.settings.openid
    return GatewayParts(
        service=service,
        actions=LedgerActions(service.database, heads),
        credentials=Credentials(engine, directory),
        keys=ProgramKeys(engine, directory),
        sessions=LoginSessions(engine, directory),
        requests=BudgetRequests(engine),
        settings=installation.settings,
        openid=None if openid is None else OpenIdLogin(engine, openid),
        hints=hints,
    )


def declare_datasets(stewardship: Stewardship, planner: MetadataPlanner, worker: ProcessWorker) -> None:
    """Add the datasets of the steward's file that the ledger does not have, and compare those that it has."""
    for dataset in planner.stewardship.datasets.values():
        stewardship.declare_dataset(
            dataset.name,
            fingerprint=worker.fingerprint(dataset.name),
            adjacency=dataset.adjacency,
            unit_column=dataset.unit,
            cap=Budget(epsilon=dataset.budget_epsilon, delta=dataset.budget_delta),
            refresh=dataset.refresh,
        )


def _run(installation: Installation, parts: GatewayParts) -> None:
    settings = installation.settings
    uvicorn.run(
        make_application(parts),
        host=settings.host,
        port=settings.port,
        ssl_certfile=None if settings.certificate is None else str(settings.certificate),
        ssl_keyfile=None if settings.private_key is None else str(settings.private_key),
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=list(settings.proxies),
        access_log=False,  # it would write addresses with their queries
        server_header=False,
        log_config=None,
        log_level="warning",
        limit_concurrency=500,
        timeout_keep_alive=10,
        timeout_graceful_shutdown=5,
        h11_max_incomplete_event_size=16 * 1024,
        http="h11",
        loop="asyncio",
        lifespan="off",
        ws="none",
    )


def _files(dataset: DatasetMetadata) -> list[Path]:
    addresses = [dataset.address, *(table.address for table in dataset.tables)]
    return [address for address in addresses if isinstance(address, Path)]


def _salt(installation: Installation) -> list[Path]:
    """The worker's secret, with which a guess of the data could be compared with their fingerprint."""
    path = installation.steward_file
    salt = path.with_name(f"{path.name}.salt")
    return [salt] if salt.exists() else []


def _own_folders(installation: Installation) -> list[Path]:
    """Where the ledger, the logins and the heads are: their files come and go."""
    folders = [] if installation.head == "stdout" else [(installation.folder / installation.head).parent]
    if installation.database.get_backend_name() == "sqlite":
        folders.append(Path(str(installation.database.database)).parent)
    return folders


def _read_options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m privet.curator.serving", description="The curator's gateway."
    )
    parser.add_argument("--steward", type=Path, required=True, help="the steward's file")
    parser.add_argument("--socket", type=Path, required=True, help="where the worker listens")
    parser.add_argument(
        "--ready", type=int, default=1, metavar="DESCRIPTOR", help="where one line says whether it is ready"
    )
    parser.add_argument("--hints", type=Path, help="names and passwords of a demonstration, to be shown")
    return parser.parse_args(words)


def _read_hints(path: Path | None) -> tuple[tuple[str, str], ...]:
    if path is None:
        return ()
    pairs = json.loads(path.read_text(encoding="utf-8"))
    return tuple((str(name), str(password)) for name, password in pairs)


def _report(descriptor: int, message: dict[str, object]) -> None:
    with os.fdopen(descriptor, "w", encoding="utf-8") as pipe:
        pipe.write(json.dumps(message) + "\n")
