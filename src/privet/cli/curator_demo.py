"""``privet curator demo``: a curator with invented data on this machine, to be tried in a browser."""

import argparse
import os
from contextlib import ExitStack
from pathlib import Path

from privet.cli.curator_serve import tell
from privet.cli.output import CliAnswer, facts, paragraph, table, write_progress
from privet.curator.serving.demonstration import Demonstration, grant_analysts, prepare_demonstration
from privet.curator.serving.supervisor import RunningCurator, run_curator, supervise
from privet.errors import InvalidArgument
from privet.private_folders import private_folder

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> CliAnswer:
    """Invent the data, start, say what to try, and run until Ctrl-C."""
    os.umask(0o077)
    with ExitStack() as stack:
        if arguments.folder is None:
            folder = stack.enter_context(private_folder())
        else:
            folder = Path(arguments.folder)
            try:
                folder.mkdir(mode=0o700, exist_ok=True)
            except OSError:
                raise InvalidArgument(
                    f"--folder must be a folder that can be made, got {str(folder)!r}. Choose another."
                ) from None
        write_progress("inventing a hospital")
        demonstration = prepare_demonstration(folder, port=arguments.port)
        write_progress("starting the worker and the gateway")
        with run_curator(demonstration.installation, hints=demonstration.hints) as running:
            grant_analysts(demonstration)
            write_progress("")
            tell("\n\n".join(_describe(running, demonstration)))
            supervise(running, tell=tell)
    kept = "." if arguments.folder is None else f", and is kept in {arguments.folder}."
    return CliAnswer([paragraph(f"The demonstration has ended{kept}")], {"address": running.address})


def _describe(running: RunningCurator, demonstration: Demonstration) -> list[str]:
    return [
        f"A curator of an invented hospital is at {running.address}",
        table(
            ("account", "role", "password"),
            [(name, str(role), password) for name, role, password in demonstration.accounts],
        ),
        "\n".join(
            [
                "Try this:",
                "  1. Open the address and log in as ann. The passwords stand on that page, too.",
                "  2. Choose visits, then Ask a question: the mean of days, for each ward.",
                "  3. 'What would it cost?' shows price and error. Nothing is spent before you ask.",
                "  4. Ask it, and ask it again: the same answer, at no cost.",
                "  5. Log in as stella, the steward: what is left, who asked what, the evidence.",
            ]
        ),
        facts(
            [
                ("data", f"{demonstration.installation.folder / 'data'}: 20,000 patients who do not exist"),
                ("steward's file", str(demonstration.installation.steward_file)),
                ("to stop", "Ctrl-C"),
            ]
        ),
    ]
