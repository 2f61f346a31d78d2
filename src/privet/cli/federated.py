"""``privet federated demo``: 50 clients train together, and the server and a participant attack them.

It works offline and takes about a minute on two cores: no defence, clipping and noise, secure aggregation,
and both. Noise, masks and keys are fresh each time, so figures under them differ from run to run.
"""

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import final

from privet.cli.exit_codes import ExitCode
from privet.cli.output import CliAnswer, fixed_up, paragraph, table, write_progress
from privet.cli.report_file import report_file
from privet.reporting.federated_facts import AttackedDefence, FederatedAttack
from privet.reporting.federated_report import FederatedComparison

__all__ = ["run"]

_SEED = 1
_CLIP = 0.5


def run(arguments: argparse.Namespace) -> CliAnswer:
    """Train under every defence, attack, and print one table."""
    out = report_file(arguments.out)
    import privet.federated.app  # noqa: F401 - says what to install where Flower or torch is missing
    from privet.cli.demo_models import one_thread
    from privet.cli.federated_demo import (
        CLIENTS,
        draw_digits_game,
        make_digits_sight,
        plan_digits_attacks,
    )
    from privet.pipeline.federated_comparison import compare_federated
    from privet.pipeline.federated_defences import list_federated_defences

    began = time.monotonic()
    with one_thread():
        comparison = compare_federated(
            plan_digits_attacks(_SEED),
            draw_digits_game(_SEED),
            list_federated_defences(
                clients=CLIENTS, epsilon=arguments.epsilon, delta=arguments.delta, clip=_CLIP
            ),
            sight=make_digits_sight(),
            tell=lambda words: write_progress(f"{words} …"),
            command="privet federated demo",
        )
    write_progress("")
    saved = _save(comparison, out)
    return CliAnswer(
        [*_blocks(comparison), *saved.sentences],
        {
            **comparison.to_plain(),
            "verdict": comparison.verdict,
            "report": None if saved.path is None else str(saved.path),
            "seconds": round(time.monotonic() - began, 1),
        },
        ExitCode.FAILED if saved.failed else ExitCode.HELD,
    )


@final
@dataclass(frozen=True)
class _SavedPage:
    path: Path | None
    failed: str = ""

    @property
    def sentences(self) -> list[str]:
        found = [] if self.path is None else [f"The report is in {self.path}."]
        return [self.failed, *found] if self.failed else found


def _save(comparison: FederatedComparison, out: Path) -> _SavedPage:
    """Write the report, or keep it in another folder: the minutes that it took are not lost."""
    try:
        return _SavedPage(comparison.save(out))
    except OSError as failed:
        words = f"The report could not be written to {out} ({failed.strerror})."
        try:
            folder = Path(tempfile.mkdtemp(prefix="privet-report-"))
            return _SavedPage(comparison.save(folder / out.name), words)
        except OSError:
            return _SavedPage(None, words)


def _blocks(comparison: FederatedComparison) -> list[str]:
    defences = comparison.defences
    rows = [[key, *(_cell(defence.find(key)) for defence in defences)] for key in comparison.keys]
    rows.append(["test accuracy", *(f"{100 * defence.test_accuracy.value:.1f} %" for defence in defences)])
    rows.append(["ε of a client", *(_epsilon(defence) for defence in defences)])
    rows.append(["proved against", *(defence.covers for defence in defences)])
    delta = next((defence.delta for defence in defences if defence.delta is not None), None)
    notes = (
        "Each cell: the share of targets in the data that the attack names, then the same share of targets "
        "that were left out, and below ≤ the most that any attack can reach, where a proof covers the "
        "observer. An attack that knows nothing has the same share twice.",
        "Membership: does the client hold this record? Property: is the scanner of this client out of "
        "adjustment? Inversion: the record itself comes out of a message.",
        "An active server sends each client a model of its own, on which the loss of its targets was raised. "
        "An active participant does so by its own update.",
        f"ε of a client is for all of its records, over all rounds, at δ = {delta:g}. The ceiling is for a "
        "client whose data are exchanged, which is twice as far. At an ε of 8 it is near 100 %: --epsilon 1 "
        "proves more, and costs accuracy.",
        "Masks hide messages, and say nothing about the sum. Noise of the server hides a client in the "
        "models, and not from the server.",
    )
    return [
        paragraph(
            f"{comparison.clients} clients with {comparison.records} handwritten digits each train a "
            f"network in {comparison.rounds} rounds. A fair coin for each of four targets of a client "
            "decided whether the client holds it. The server and a participant guess the coins."
        ),
        table(["attack", *(defence.name for defence in defences)], rows),
        "\n".join(paragraph(note, bullet="  · ") for note in notes),
        paragraph(comparison.verdict),
    ]


def _cell(attack: FederatedAttack | None) -> str:
    if attack is None:
        return "–"
    ceiling = "" if attack.sure_ceiling is None else f", ≤ {fixed_up(100 * attack.sure_ceiling, 1)} %"
    return f"{100 * attack.success.value:.0f} / {100 * attack.baseline.value:.0f} %{ceiling}"


def _epsilon(defence: AttackedDefence) -> str:
    return "no proof" if defence.epsilon_proved is None else f"≤ {fixed_up(defence.epsilon_proved, 2)}"
