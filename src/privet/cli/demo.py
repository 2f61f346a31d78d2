"""``privet demo``: a random forest that leaks, and private networks that are as accurate and stay within
their proved bounds.

It works offline and takes less than a minute on two cores. All models get the same attacks. Noise and
canaries are fresh each time, so the figures of private models differ from run to run.
"""

import argparse
import time
from collections.abc import Iterator

from privet import __version__
from privet.cli.exit_codes import ExitCode
from privet.cli.output import CliAnswer, fixed_down, fixed_up, paragraph, percent, table, write_progress
from privet.cli.report_file import report_file
from privet.cli.saving import Saved, save_report
from privet.datasets.injuries import injuries
from privet.fingerprints import FingerprintKey
from privet.pipeline import audit
from privet.reporting import ModelAudit, Origin, Report
from privet.scores import Records

__all__ = ["run"]

_SEED = 1
_DELTA = 1e-5
# Canaries are tight: at 95 %, one of three models would pass its proof in a tenth of the demos.
_CONFIDENCE = 0.99
_EPSILONS = (8.0, 3.0, 1.0)
_REFERENCES = 12
_FPR = 1e-3
_FOREST = "Random forest"


def run(arguments: argparse.Namespace) -> CliAnswer:
    """Train, attack, bound from both sides; one table and the report."""
    out = report_file(arguments.out)
    import privet.training  # noqa: F401 - says what to install where torch is missing
    from privet.cli.demo_models import one_thread

    began, records, key = time.monotonic(), injuries(), FingerprintKey.generate()
    with one_thread():
        audits = tuple(_audits(records, key))
    report = Report(
        audits=audits,
        origin=Origin(command="privet demo", version=__version__, seed=_SEED),
        title="What four models of the same claims leak",
        key=key,
    )
    write_progress("Writing the report …")
    saved = save_report(report, out)
    write_progress("")
    share = float(records.known_labels.mean())
    return CliAnswer(
        _blocks(report, records, max(share, 1 - share), saved),
        {
            "verdict": report.verdict,
            "records": len(records),
            "majority_accuracy": max(share, 1 - share),
            "delta": _DELTA,
            "fpr": _FPR,
            "models": [_row(audited) for audited in report.audits],
            "report": None if saved.path is None else str(saved.path),
            "seconds": round(time.monotonic() - began, 1),
        },
        ExitCode.FAILED if saved.failed else ExitCode.HELD,
    )


def _audits(records: Records, key: FingerprintKey) -> Iterator[ModelAudit]:
    """Audits of the forest and of the private networks. Each has reference models of its own recipe."""
    from privet.cli.demo_models import PrivateNetwork, forest_recipe, split_by_coin

    members, others = split_by_coin(records, _SEED)
    forest = forest_recipe()
    _tell(1, _FOREST)
    report = audit(
        forest.fit(members.inputs, members.known_labels, _SEED),
        members,
        others,
        name=_FOREST,
        recipe=forest,
        references=_REFERENCES,
        delta=_DELTA,
        confidence=_CONFIDENCE,
        seed=_SEED,
        key=key,
    )
    yield report.audits[0]
    for number, epsilon in enumerate(_EPSILONS, start=2):
        private, name = PrivateNetwork(epsilon, _DELTA), f"Private network, ε = {epsilon:g}"
        _tell(number, name)
        trained = private.train(members.inputs, members.known_labels, _SEED)
        report = audit(
            trained,
            members,
            others,
            name=name,
            recipe=private,
            references=_REFERENCES,
            delta=_DELTA,
            confidence=_CONFIDENCE,
            seed=_SEED,
            key=key,
        )
        yield report.audits[0]


def _tell(number: int, name: str) -> None:
    write_progress(
        f"[{number}/{1 + len(_EPSILONS)}] {name}: training it and {_REFERENCES} reference models, attacking …"
    )


def _blocks(report: Report, records: Records, majority: float, saved: Saved) -> list[str]:
    confidence = percent(report.audits[0].confidence)
    notes = (
        "Attack: the stronger of two that see the model's confidences; one compares them with those of "
        f"{_REFERENCES} models which the attacker trained in the same way. Guessing has an AUC of 0.5.",
        f"Accuracy is on records that were not trained on. TPR at {percent(_FPR)}: the share of members that "
        f"the attack finds when it also accuses {percent(_FPR)} of the others.",
        f"ε at δ = {_DELTA:g}. On records: at least this, at {confidence} confidence, by these attacks. On "
        "canaries: at least this, by an adversary who sees every step of the training. Proved: at most this, "
        "by any attack.",
        "The forest has scikit-learn's default settings. A network of this size without noise leaks far less "
        "than the forest (AUC 0.52 to 0.56 after 5 to 100 epochs), but nothing bounds what it leaks.",
        "The number of epochs was chosen by trials on these records, which the proof of one training does "
        "not cover; privet.tune pays for such a choice. Noise is fresh: private networks differ from run to "
        "run.",
    )
    return [
        paragraph(
            f"{len(records):,} workers were hurt at work. From the injury, the medical bills and the wage, "
            "models predict who is off work for more than four weeks. A fair coin for each worker decided "
            "who is trained on, and attacks guess the coin. Always answering no is right for "
            f"{100 * majority:.1f} %."
        ),
        table(
            [
                "model",
                "accuracy",
                "AUC",
                f"TPR at {percent(_FPR)}",
                "ε on records",
                "ε on canaries",
                "ε proved",
            ],
            [_cells(audited) for audited in report.audits],
        ),
        "\n".join(paragraph(note, bullet="  · ") for note in notes),
        paragraph(report.verdict),
        *saved.sentences,
    ]


def _cells(audited: ModelAudit) -> list[str]:
    leakage = audited.strongest.leakage
    tpr = leakage.tpr(_FPR)
    return [
        audited.name,
        "–" if audited.test_accuracy is None else f"{100 * audited.test_accuracy:.1f} %",
        f"{leakage.auc.value:.3f}",
        "–" if tpr is None else f"{100 * tpr.value:.2f} %",
        f"≥ {fixed_down(audited.epsilon_of_records, 2)}",
        "–" if audited.epsilon_of_canaries is None else f"≥ {fixed_down(audited.epsilon_of_canaries, 2)}",
        "no proof" if audited.epsilon_proved is None else f"≤ {fixed_up(audited.epsilon_proved, 2)}",
    ]


def _row(audited: ModelAudit) -> dict[str, object]:
    leakage = audited.strongest.leakage
    tpr = leakage.tpr(_FPR)
    return {
        "name": audited.name,
        "test_accuracy": audited.test_accuracy,
        "train_accuracy": audited.train_accuracy,
        "attack": audited.strongest.name,
        "auc": leakage.auc.value,
        "tpr": None if tpr is None else tpr.value,
        "epsilon_measured": audited.epsilon_measured,
        "epsilon_of_records": audited.epsilon_of_records,
        "epsilon_of_canaries": audited.epsilon_of_canaries,
        "epsilon_proved": audited.epsilon_proved,
        "standing": audited.standing.value,
    }
