"""``privet train``: a model trained with differential privacy, its weights, and the ledger of what they cost.

The Python file sets ``model`` (a torch module) and ``members`` (the training data), and may set ``loss``. The
ledger is written before the weights, so no weights exist without their cost.
"""

import argparse
from io import BytesIO
from pathlib import Path
from typing import Any

from privet.cli.account import claim_document, claim_sentence, epsilon_of, neighbours, warnings_of
from privet.cli.audit_inputs import describe_failure, run_python_file
from privet.cli.output import CliAnswer, caveat_text, facts
from privet.cli.output_files import check_new_file, write_new_file
from privet.cli.query import GuaranteeQuery, adjacency_of, delta_of
from privet.errors import InvalidArgument, PrivetError, ProgramFailed, Unreadable
from privet.paths import is_file

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> CliAnswer:
    """Train the model of a Python file, and write its ledger and its weights."""
    delta = delta_of(arguments)
    for option in ("epsilon", "epochs"):
        if getattr(arguments, option) is None:
            raise InvalidArgument(
                f"--{option} must be given, because it has no default. Add --{option} and a number."
            )
    out = check_new_file("--out", arguments.out, (".pt", ".pth"))
    ledger_path = check_new_file("--ledger", arguments.ledger or f"{arguments.out}.ledger.json", (".json",))
    path = Path(arguments.subject)
    if path.suffix != ".py" or not is_file(path):
        raise Unreadable(f"{arguments.subject!r} must be a .py file that exists, and is not. Check the name.")
    import privet.training  # noqa: F401 - says what to install where torch is missing

    names = run_python_file(path)
    for name in ("model", "members"):
        if name not in names:
            raise Unreadable(f"{path.name!r} must set {name!r}, and does not. Give it a value in the file.")
    trained = _train(arguments, names, delta)
    write_new_file(ledger_path, trained.ledger.to_json().encode())
    write_new_file(out, _pack_weights(trained.model))
    return _tell(arguments, trained, delta, out, ledger_path)


# torch is optional
def _train(arguments: argparse.Namespace, names: Any, delta: float) -> Any:  # noqa: ANN401
    from privet.training import Flat, train

    try:
        return train(
            names["model"],
            names["members"],
            epsilon=arguments.epsilon,
            delta=delta,
            epochs=arguments.epochs,
            loss=names.get("loss"),
            lot_size=arguments.lot_size,
            clip=None if arguments.clip is None else Flat(arguments.clip),
            adjacency=adjacency_of(arguments),
            population=arguments.population,
            canaries=arguments.canaries,
            checkpoint=arguments.checkpoint,
        )
    except PrivetError:
        raise
    except Exception as failed:
        kept = "" if arguments.checkpoint is None else f" What was spent is in {arguments.checkpoint}."
        raise ProgramFailed(
            f"The model must train on the members, and failed with {describe_failure(failed)}.{kept} Check "
            "the file."
        ) from failed


def _pack_weights(model: Any) -> bytes:  # noqa: ANN401 - torch is optional
    import torch

    buffer = BytesIO()
    torch.save(model.state_dict(), buffer)
    return buffer.getvalue()


def _tell(
    arguments: argparse.Namespace,
    trained: Any,  # noqa: ANN401 - torch is optional
    delta: float,
    out: Path,
    ledger_path: Path,
) -> CliAnswer:
    question = GuaranteeQuery(trained.guarantee(), delta, arguments.adjacency is None)
    bounds = epsilon_of(question)
    caveats = question.guarantee.caveats
    rows = [
        ("weights", f"{out}, as torch.save writes a state dict"),
        ("ledger", str(ledger_path)),
        ("steps", f"{trained.plan.steps - trained.steps_cut:,}"),
        ("accountant", question.guarantee.accountant),
        ("adjacency", neighbours(question.guarantee.adjacency, chosen=question.chosen)),
    ]
    document = {
        **claim_document(question, bounds),
        "weights": str(out),
        "ledger": str(ledger_path),
        "interrupted": trained.interrupted,
    }
    blocks = [f"These weights cost {claim_sentence(question, bounds)}."]
    if trained.interrupted:
        blocks.append("The run was ended early. The ledger has the steps that were taken.")
    return CliAnswer([*blocks, *warnings_of(caveats), facts(rows), *caveat_text(caveats)], document)
