"""A section for a model card, in Markdown for Hugging Face and GitHub: measured and proved bounds, and their
limits.
"""

import re
from collections.abc import Callable

from privet.reporting.caution import audit_badge, warning_sentences
from privet.reporting.content import ReportContent
from privet.reporting.documents.evidence import (
    attack_sentence,
    exposure_sentences,
    measured_sentences,
    proof_sentences,
    untested_sentence,
)
from privet.reporting.documents.markdown import escape_markdown, list_sentences, markdown_table
from privet.reporting.documents.recovery_card import recovery_parts
from privet.reporting.facts import ModelAudit, Standing
from privet.reporting.fingerprint_section import fingerprint_sentences
from privet.reporting.numbers import at_least, at_most, count, fraction, percent, rate_range, small
from privet.reporting.verdicts import verdict

__all__ = ["model_card"]


def model_card(report: ReportContent) -> str:
    """The section, which starts with a heading of the second level."""
    parts = [
        "## Privacy",
        f"**{escape_markdown(verdict(report))}**",
        *([_overview(report)] if any(audit.results for audit in report.audits) else []),
        "ε is a worst case: one record changes the probability of any outcome by a factor of e^ε at most, "
        "up to δ. It is *at least* what an attack shows, and *at most* what a proof shows.",
        *_by_model(report, "What was measured", _measured_text),
        *recovery_parts(report),
        *_by_model(report, "What is proved", _proof_text),
        "### Limits",
        list_sentences(_limits(report)),
        "### What this is about",
        list_sentences(fingerprint_sentences(report)),
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
    return markdown_table(header, [_row(audit) for audit in report.audits if audit.results])


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
            parts.append(f"**{escape_markdown(audit.name)}**")
        parts.append(write(audit))
    return parts


def _measured_text(audit: ModelAudit) -> str:
    intervals = (
        f"All intervals and bounds hold together at {percent(audit.confidence)} confidence; "
        f"each by itself holds at a higher one."
    )
    if not audit.results:
        return "\n\n".join([list_sentences(measured_sentences(audit)), intervals])
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
    return "\n\n".join([list_sentences(measured_sentences(audit)), markdown_table(header, rows), intervals])


def _proof_text(audit: ModelAudit) -> str:
    parts = [list_sentences(proof_sentences(audit))]
    if audit.caveats:
        parts += [
            "The figures rest on these conditions:",
            list_sentences(caveat.sentence for caveat in audit.caveats),
        ]
    return "\n\n".join(parts)


def _limits(report: ReportContent) -> list[str]:
    sentences = [
        "What is measured is a lower bound. “Not detected at this power” is about the attacks that were "
        "run, on so many records, and about no others.",
        *(
            [
                "It is assumed that a fair coin decided which of the scored records were trained on, and "
                "that nothing else tells them apart."
            ]
            if any(audit.table is None for audit in report.audits)
            else []
        ),
        untested_sentence(report),
    ]
    several = len(report.audits) > 1
    for audit in report.audits:
        own = [
            *(
                [
                    f"{count(audit.strongest.leakage.roc.others)} non-members cannot show a false-alarm rate "
                    f"below {percent(audit.strongest.leakage.fpr_floor)}."
                ]
                if audit.results
                else []
            ),
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
        *(f"# {audit.name}: {attack_sentence(audit.strongest)}" for audit in report.audits if audit.results),
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
