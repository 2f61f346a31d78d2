"""``privet curator export`` and ``verify``: what an auditor takes away, and whether all of it agrees."""

import argparse
import json
from pathlib import Path

from privet.cli.exit_codes import ExitCode
from privet.cli.output import CliAnswer, facts, paragraph, rounded_up
from privet.cli.output_files import check_new_file, write_new_file
from privet.curator.serving.installation import Installation, read_installation
from privet.curator.storage import open_database
from privet.curator.storage.evidence import collect_evidence
from privet.curator.storage.lookups import require_dataset
from privet.curator.storage.verification import verify_database

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> CliAnswer:
    """Do one of the two."""
    installation = read_installation(Path(arguments.steward))
    return _export(arguments, installation) if arguments.action == "export" else _verify(installation)


def _export(arguments: argparse.Namespace, installation: Installation) -> CliAnswer:
    path = None if arguments.out is None else check_new_file("--out", arguments.out, (".json",))
    database = open_database(installation.database_address)
    try:
        with database.read() as connection:
            evidence = collect_evidence(connection, require_dataset(connection, arguments.dataset))
    finally:
        database.close()
    document = evidence["registry_entry"] if arguments.registry else evidence
    text = json.dumps(document, indent=2, ensure_ascii=False)
    if path is None:
        return CliAnswer([text], document)
    write_new_file(path, f"{text}\n".encode())
    certified = evidence["certified"]
    rows = [
        ("written to", str(path)),
        ("questions charged", f"{evidence['questions']:,}"),
        ("certified so far", f"ε = {rounded_up(certified['reached'])} at δ = {certified['delta']:g}"),
        ("head of the chain", evidence["head"]),
    ]
    return CliAnswer([facts(rows)], document)


def _verify(installation: Installation) -> CliAnswer:
    database = open_database(installation.database_address)
    try:
        found = verify_database(database, installation.make_heads())
    finally:
        database.close()
    rows = [
        ("links of the chain", f"{found.links:,}"),
        ("charges", f"{found.charges:,}"),
        ("answers", f"{found.answers:,}"),
        ("head", str(found.head)),
    ]
    said = (
        "The chain, the caps and every spend agree."
        if found.is_sound
        else "Something does not agree. Stop the curator, keep this database, and compare it with a backup."
    )
    return CliAnswer(
        [paragraph(said), facts(rows), *(paragraph(problem, bullet="  · ") for problem in found.problems)],
        {
            "chain_ok": found.is_sound,
            "links": found.links,
            "charges": found.charges,
            "answers": found.answers,
            "head": str(found.head),
            "problems": list(found.problems),
        },
        ExitCode.HELD if found.is_sound else ExitCode.BROKEN,
    )
