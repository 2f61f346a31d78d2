"""``privet text demo``: a language model that repeats private letters, and a private one that does not.

It works offline, with invented letters. Both models go on from one model of public letters, and both get the
same attacks. The noise is fresh each time, so the figures of the private model differ from run to run.
"""

import argparse
import time
from dataclasses import replace

from privet import __version__
from privet.cli.audit_text import attacks_of
from privet.cli.exit_codes import ExitCode
from privet.cli.output import CliAnswer, fixed_down, fixed_up, paragraph, table, write_progress
from privet.cli.report_file import report_file
from privet.cli.saving import Saved, save_report
from privet.fingerprints import FingerprintKey
from privet.reporting import ModelAudit, Origin, Report

__all__ = ["run"]

_SEED = 1
_WRITERS = 300
_EPSILON = 8.0
_PLAIN_EPOCHS, _PRIVATE_EPOCHS = 24, 10
_PROMPT, _PASSAGE = 24, 12
_FPR = 0.01
_GREEDY = "greedy extraction"


def run(arguments: argparse.Namespace) -> CliAnswer:
    """Train, attack, bound from both sides; one table and the report."""
    out = report_file(arguments.out)
    import privet.training  # noqa: F401 - says what to install where torch is missing
    from privet.cli.demo_models import one_thread

    began, key = time.monotonic(), FingerprintKey.generate()
    with one_thread():
        audits, before = _audit_both(key)
    report = Report(
        audits=audits,
        origin=Origin(command="privet text demo", version=__version__, seed=_SEED),
        title="What two language models remember of the same letters",
        key=key,
        exhibits=bool(arguments.exhibits),
    )
    write_progress("Writing the report …")
    saved = save_report(report, out)
    write_progress("")
    return CliAnswer(
        _blocks(report, saved, before),
        {
            "verdict": report.verdict,
            "writers": _WRITERS,
            "delta": audits[0].delta,
            "public_loss": before,
            "models": [
                {
                    "name": audited.name,
                    "standing": audited.standing.value,
                    "loss": None if audited.text is None else audited.text.loss_on_others,
                    "epsilon_lower": audited.epsilon_measured,
                    "epsilon_proved": audited.epsilon_proved,
                    "attacks": attacks_of(audited),
                }
                for audited in audits
            ],
            "report": None if saved.path is None else str(saved.path),
            "seconds": round(time.monotonic() - began, 1),
        },
        ExitCode.FAILED if saved.failed else ExitCode.HELD,
    )


def _audit_both(key: FingerprintKey) -> tuple[tuple[ModelAudit, ...], float]:
    """Audits of the plain model and of the private one, and the loss of the model from which both go on."""
    from privet.cli.text_demo_models import (
        draw_letter_game,
        measure_loss,
        train_on_public,
        train_plainly,
        train_privately,
    )
    from privet.pipeline.text_audit import audit_text

    game = draw_letter_game(_WRITERS, seed=_SEED)
    _tell(1, "a model of public letters: training")
    base = train_on_public(game, seed=_SEED)
    audits = []
    for number, name in enumerate(("Plain model", f"Private model, ε = {_EPSILON:g}"), start=2):
        _tell(number, f"{name}: training, attacking")
        model: object = (
            train_plainly(game, base, epochs=_PLAIN_EPOCHS, seed=_SEED)
            if number == 2
            else train_privately(game, base, epsilon=_EPSILON, epochs=_PRIVATE_EPOCHS)
        )
        report = audit_text(
            model,
            game.encoder,
            game.letters.texts,
            game.members,
            authors=game.letters.authors,
            public=game.public.texts,
            public_models=[base],
            canaries=game.secrets,
            public_vocabulary=True,
            prompt_tokens=_PROMPT,
            passage_tokens=_PASSAGE,
            seed=_SEED,
            name=name,
            fingerprint_key=key,
        )
        audits.append(replace(report.audits[0], name=name))
    return tuple(audits), measure_loss(game, base)


def _tell(number: int, name: str) -> None:
    write_progress(f"[{number}/3] {name} …")


def _blocks(report: Report, saved: Saved, before: float) -> list[str]:
    notes = (
        f"Loss: nats for each word of letters that were not trained on. A lower one is a better model; that "
        f"of public letters, from which both go on, has {before:.2f}.",
        f"Writers found: the best attack on writers, who are found at {100 * _FPR:g} % false alarms.",
        f"Passages: the next {_PASSAGE} words of a letter, which the model writes when it is given the "
        f"{_PROMPT} before them. Beside it the same for letters that were not trained on.",
        "Secrets: mean exposure in bits of a number of four digits that was planted four times. A number "
        "that the model never saw has 1.44 bits; the likeliest of all has 13.3.",
        "ε at δ = 1e-05, of a writer with all letters. A stronger attack may show more than was measured; "
        "none can show more than was proved.",
    )
    return [
        paragraph(
            f"{_WRITERS} invented people wrote three letters each. A fair coin for each of them decided "
            "whether a language model is trained on their letters. It learnt from public letters before. "
            "Attacks ask which letters and which people it saw, and make it repeat them."
        ),
        table(
            ["model", "loss", "writers found", "passages", "left out", "secrets", "ε measured", "ε proved"],
            [_cells(audited) for audited in report.audits],
        ),
        "\n".join(paragraph(note, bullet="  · ") for note in notes),
        paragraph(report.verdict),
        *saved.sentences,
    ]


def _cells(audited: ModelAudit) -> list[str]:
    on_authors = [result for result in audited.results if result.unit == "author"]
    best = max(on_authors, key=lambda result: result.leakage.auc.value)
    tpr = best.leakage.tpr(_FPR)
    greedy = next((each.leakage for each in audited.recoveries if each.name == _GREEDY), None)
    text, proved = audited.text, audited.epsilon_proved
    return [
        audited.name,
        "–" if text is None else f"{text.loss_on_others:.2f}",
        f"AUC {best.leakage.auc.value:.3f}" if tpr is None else f"{100 * tpr.value:.1f} %",
        "–" if greedy is None else f"{100 * greedy.success.value:.1f} %",
        "–" if greedy is None else f"{100 * greedy.baseline.value:.1f} %",
        "–" if text is None or not text.exposure else f"{text.exposure[-1].mean:.1f} bits",
        f"≥ {fixed_down(audited.epsilon_measured, 2)}",
        "no proof" if proved is None else f"≤ {fixed_up(proved, 2)}",
    ]
