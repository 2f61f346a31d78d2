"""A section for a model card, in Markdown for Hugging Face and GitHub: measured and proved bounds, and their
limits.
"""

import re
from collections.abc import Callable, Iterable, Sequence

from privet.reporting.caution import audit_badge, warning_sentences
from privet.reporting.content import ReportContent
from privet.reporting.documents.evidence import (
    UNTESTED,
    attack_sentence,
    exposure_sentences,
    measured_sentences,
    proof_sentences,
)
from privet.reporting.facts import ModelAudit, Standing
from privet.reporting.fingerprint_section import fingerprint_sentences
from privet.reporting.numbers import at_least, at_most, count, fraction, percent, rate_range, small
from privet.reporting.verdicts import verdict

__all__ = ["model_card"]

_MARKUP = re.compile(r"([\\`*_{}\[\]|~#])")


def model_card(report: ReportContent) -> str:
    """The section, which starts with a heading of the second level."""
    parts = [
        "## Privacy",
        f"**{_escape(verdict(report))}**",
        _overview(report),
        "ε is a worst case: one record changes the probability of any outcome by a factor of e^ε at most, "
        "up to δ. It is *at least* what an attack shows, and *at most* what a proof shows.",
        *_by_model(report, "What was measured", _measured_text),
        *_by_model(report, "What is proved", _proof_text),
        "### Limits",
        _bullet_list(_limits(report)),
        "### What this is about",
        _bullet_list(fingerprint_sentences(report)),
        "### How to reproduce",
        _reproduce(report),
    ]
    return "\n\n".join(parts) + "\n"


def _overview(report: ReportContent) -> str:
    header = [
        "Model",
        "Standing",
        "ε on records, at least",
        "ε on canaries, at least",
        "ε proved, at most",
        "δ",
        "Attack AUC",
        "Members found",
        "Test accuracy"
        if all(audit.regression is None for audit in report.audits)
        else "Test accuracy or R²",
    ]
    return _table(header, [_row(audit) for audit in report.audits])


def _row(audit: ModelAudit) -> list[str]:
    leakage, fpr = audit.strongest.leakage, audit.strongest.leakage.reported_fpr
    tpr = None if fpr is None else leakage.tpr(fpr)
    bound = audit.epsilon_proved
    capped = "nothing is proved" if bound is None else at_most(bound)
    if audit.standing is Standing.BROKEN and bound is not None:
        capped = f"claimed {at_most(bound)}, contradicted"
    return [
        audit.name,
        audit_badge(audit).word,
        at_least(audit.epsilon_of_records) if audit.on_records else "not attacked",
        "no canaries" if audit.epsilon_of_canaries is None else at_least(audit.epsilon_of_canaries),
        capped,
        small(audit.delta),
        f"{fraction(leakage.auc.value)} ({fraction(leakage.auc.lower)} to {fraction(leakage.auc.upper)})",
        "too few records to say"
        if fpr is None or tpr is None
        else f"{percent(tpr.value)} ({rate_range(tpr)}) at {percent(fpr)} false alarms",
        audit.utility or "not known",
    ]


def _by_model(report: ReportContent, heading: str, write: Callable[[ModelAudit], str]) -> list[str]:
    """One heading, and below it the text on each model, under its name where there are several."""
    parts = [f"### {heading}"]
    for audit in report.audits:
        if len(report.audits) > 1:
            parts.append(f"**{_escape(audit.name)}**")
        parts.append(write(audit))
    return parts


def _measured_text(audit: ModelAudit) -> str:
    rows = []
    for result in audit.results:
        leakage = result.leakage
        rates = [leakage.tpr(fpr) for fpr in (1e-2, 1e-3)]
        rows.append(
            [
                f"{result.name} (canaries)" if result.planted else result.name,
                result.adversary.sees,
                result.adversary.knows,
                f"{count(leakage.roc.members)} / {count(leakage.roc.others)}",
                f"{fraction(leakage.auc.value)} ({fraction(leakage.auc.lower)} to "
                f"{fraction(leakage.auc.upper)})",
                *(
                    "not supported" if rate is None else f"{percent(rate.value)} ({rate_range(rate)})"
                    for rate in rates
                ),
                at_least(result.finding.measured.value),
            ]
        )
    header = [
        "Attack",
        "Sees",
        "Knows",
        "Members / others",
        "AUC",
        "TPR at 1 % FPR",
        "TPR at 0.1 % FPR",
        "ε, at least",
    ]
    intervals = (
        f"All intervals and bounds hold together at {percent(audit.confidence)} confidence; "
        f"each by itself holds at a higher one."
    )
    return "\n\n".join([_bullet_list(measured_sentences(audit)), _table(header, rows), intervals])


def _proof_text(audit: ModelAudit) -> str:
    parts = [_bullet_list(proof_sentences(audit))]
    if audit.caveats:
        parts += [
            "The figures rest on these conditions:",
            _bullet_list(caveat.sentence for caveat in audit.caveats),
        ]
    return "\n\n".join(parts)


def _limits(report: ReportContent) -> list[str]:
    sentences = [
        "What is measured is a lower bound. “Not detected at this power” is about the attacks that were "
        "run, on so many records, and about no others.",
        "It is assumed that a fair coin decided which of the scored records were trained on, and that "
        "nothing else tells them apart.",
        UNTESTED,
    ]
    several = len(report.audits) > 1
    for audit in report.audits:
        own = [
            f"{count(audit.strongest.leakage.roc.others)} non-members cannot show a false-alarm rate below "
            f"{percent(audit.strongest.leakage.fpr_floor)}.",
            *(exposure_sentences(audit) if audit.harm is not None else []),
            *(
                []
                if audit.checks
                else ["Only scores were given, so the members and the others were not checked."]
            ),
        ]
        sentences += [f"{audit.name}: {words}" if several else words for words in own]
    return [*sentences, *warning_sentences(report)]


def _reproduce(report: ReportContent) -> str:
    origin = report.origin
    lines = [
        origin.command,
        f"# Privet {origin.version}, {origin.created:%Y-%m-%d}, seed "
        f"{'none' if origin.seed is None else origin.seed}",
        *(f"# {audit.name}: {attack_sentence(audit.strongest)}" for audit in report.audits),
        *(
            f"# {audit.name}: reference models: {audit.reference_models}"
            for audit in report.audits
            if audit.reference_models is not None
        ),
    ]
    code = "\n".join(" ".join(line.split()) for line in lines)
    longest = max((len(run) for run in re.findall(r"`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return (
        f"{fence}text\n{code}\n{fence}\n\nThe same figures for programs are in `report.json` (`Report.save`)."
    )


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *([_escape(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _bullet_list(sentences: Iterable[str]) -> str:
    return "\n".join(f"- {_escape(words)}" for words in sentences)


def _escape(plain: str) -> str:
    """Escaped words: a name cannot become markup, a link or a new cell."""
    escaped = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKUP.sub(r"\\\1", re.sub(r"[\r\n\t]+", " ", escaped))
