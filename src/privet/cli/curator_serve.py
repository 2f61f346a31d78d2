"""``privet curator serve``: both processes, until Ctrl-C."""

import argparse
import os
from pathlib import Path

from privet.cli.output import CliAnswer, facts, paragraph
from privet.cli.streams import flush_output, write_output
from privet.curator.serving.installation import read_installation
from privet.curator.serving.supervisor import RunningCurator, run_curator, supervise

__all__ = ["describe_confinement", "run", "tell"]


def run(arguments: argparse.Namespace) -> CliAnswer:
    """Start, say where, and keep it running."""
    os.umask(0o077)
    installation = read_installation(Path(arguments.steward))
    with run_curator(installation) as running:
        tell(
            "\n\n".join(
                [
                    f"The curator is at {running.address}.",
                    facts(
                        [
                            *describe_confinement(running),
                            ("to stop", "Ctrl-C"),
                            ("to read the file again", "SIGHUP"),
                        ]
                    ),
                ]
            )
        )
        supervise(running, tell=tell)
    return CliAnswer([paragraph("Stopped. What was charged is in the ledger.")], {"address": running.address})


def describe_confinement(running: RunningCurator) -> list[tuple[str, str]]:
    """What the kernel refuses each of the two processes."""
    worker = running.worker.confinement()
    gateway = (
        "cannot open the data: the kernel refuses it"
        if running.cannot_open_data
        else "does not open the data, and nothing enforces it: put the ledger into a folder of its own, or "
        "start the "
        "worker as another user"
    )
    network = "has no network" if worker.network_closed else "keeps its network"
    writes = "cannot write" if worker.writes_refused else "nothing keeps it from writing"
    return [("gateway", gateway), ("worker", f"{network}, {writes}")]


def tell(text: str) -> None:
    """Print now, not at the end."""
    write_output(text)
    flush_output()
