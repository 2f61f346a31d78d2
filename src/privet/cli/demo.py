"""``privet demo``: a plain model that leaks and private ones that hold what was proved, on a survey that is at hand.

Offline, and in less than two minutes on two cores. All models are attacked alike. Noise and canaries are fresh each time, so
figures of private models differ from run to run.
"""

import argparse
import time
from collections.abc import Iterator

from privet import __version__
from privet.cli.exit_codes import ExitCode
from privet.cli.output import CliAnswer, fixed_down, fixed_up, paragraph, percent, table, write_progress
from privet.cli.report_file import report_file
from privet.cli.saving import Saved, save_report
from privet.datasets.affairs import affairs
from privet.fingerprints import FingerprintKey
from privet.pipeline import audit
from privet.reporting import ModelAudit, Origin, Report
from privet.scores import Records

__all__ = ["run"]

_SEED = 1
_DELTA = 1e-5
_EPSILONS = (8.0, 3.0, 1.0)
_REFERENCES = 12
_FPR = 1e-3


def run(arguments: argparse.Namespace) -> CliAnswer:
    """Train, attack, bound from both sides; one table and the report."""
    out = report_file(arguments.out)
    import privet.training  # noqa: F401 - which says what to install where torch is missing
    from privet.cli.demo_models import one_thread

    began, records, key = time.monotonic(), affairs(), FingerprintKey.generate()
    with one_thread():
        audits = tuple(_audits(records, key))
    report = Report(
        audits=audits,
        origin=Origin(command="privet demo", version=__version__, seed=_SEED),
        title="What four models of one survey leak",
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
    """The plain model, then the private ones, each attacked with references made by its own recipe."""
    from privet.cli.demo_models import Private, halves, plain_recipe

    members, others = halves(records, _SEED)
    plain = plain_recipe()
    _tell(1, "Plain model")
    fitted = plain.fit(members.inputs, members.known_labels, _SEED)
    found = audit(
        fitted,
        members,
        others,
        name="Plain model",
        recipe=plain,
        references=_REFERENCES,
        delta=_DELTA,
        seed=_SEED,
        key=key,
    )
    yield found.audits[0]
    for place, epsilon in enumerate(_EPSILONS, start=2):
        private, name = Private(epsilon, _DELTA), f"Private model, ε = {epsilon:g}"
        _tell(place, name)
        trained = private.trained(members.inputs, members.known_labels, _SEED)
        found = audit(
            trained,
            members,
            others,
            name=name,
            recipe=private,
            references=_REFERENCES,
            delta=_DELTA,
            seed=_SEED,
            key=key,
        )
        yield found.audits[0]


def _tell(place: int, name: str) -> None:
    write_progress(
        f"[{place}/{1 + len(_EPSILONS)}] {name}: training it and {_REFERENCES} reference models, attacking …"
    )


def _blocks(report: Report, records: Records, majority: float, saved: Saved) -> list[str]:
    notes = (
        f"Attack: the strongest of three that see the model's confidences and compare with {_REFERENCES} models which the "
        "attacker trained in the same way. By chance its AUC is 0.5.",
        f"Accuracy is on records that were not trained on. TPR at {percent(_FPR)}: the share of members that the attack finds, where it "
        f"names {percent(_FPR)} of the others too.",
        f"ε at δ = {_DELTA:g}. On records: at least this, at {percent(report.audits[0].confidence)} confidence, by these attacks. "
        f"On canaries: at least this, by an adversary who sees every step of the training. Proved: at most this, by any attack.",
        "The plain model trains until it knows records by heart. Stopped early it would leak less too, and nothing would bound it.",
        "The number of epochs was chosen by trials on this survey, which a proof of one training does not cover. Noise is fresh: "
        "private models differ from run to run.",
    )
    return [
        paragraph(
            f"{len(records):,} women told a magazine about their marriage, and whether they had had an affair. Models learn to tell "
            f"the answer; a fair coin decided who was trained on, and attacks guess the coin. Always saying no is right for "
            f"{100 * majority:.1f} % of them."
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
