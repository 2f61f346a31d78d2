"""Sentences on recoveries: what the population explains, and what being in the data adds."""

from typing import NamedTuple

from privet.auditing import BaselineKind, RecoveryLeakage
from privet.reporting.facts import ModelAudit
from privet.reporting.numbers import at_least, count, percent, percent_at_most, points, rate_range, small
from privet.reporting.recovery_facts import RecoveryResult

__all__ = ["leak_range", "leak_sentence", "recovery_breach", "recovery_clause", "recovery_sentences"]


class _Baseline(NamedTuple):
    """What explains a success without a leak, what adds to it, and who else succeeds so often."""

    explains: str
    adds: str
    rival: str


_BASELINES = {
    BaselineKind.LEFT_OUT: _Baseline(
        "the population", "being in the data adds", "the same attack on targets left out"
    ),
    BaselineKind.PUBLIC: _Baseline(
        "public knowledge", "what was released adds", "a blind guess from public knowledge"
    ),
    BaselineKind.CANDIDATES: _Baseline("chance", "what was released adds", "chance"),
}


def leak_sentence(leakage: RecoveryLeakage) -> str:
    """One sentence: of the success, the population explains so much, and being in the data adds so much.

    >>> from privet.auditing import Rate
    >>> rates = Rate(0.83, 0.7, 0.9), Rate(0.61, 0.5, 0.7), Rate(0.22, 0.1, 0.33)
    >>> said = leak_sentence(RecoveryLeakage("a", "exact", 200, 200, *rates)).replace("\\u00a0", " ")
    >>> print(*said.split("; "), sep="\\n")
    Of the 83 % that it recovers, the population explains 61 %
    being in the data adds 22.0 points (10.0 to 33.0).
    """
    success, leak = percent(leakage.success.value), leakage.leak
    baseline, ends = percent(leakage.baseline.value), leak_range(leakage)
    who = _BASELINES[leakage.baseline_kind]
    if leakage.detected and leak.value > 0:
        added = f"{who.adds} {points(leak.value)} ({ends})"
        return f"Of the {success} that it recovers, {who.explains} explains {baseline}; {added}."
    if leakage.detected:
        return f"It recovers {success} of what is in the data and {baseline} of what is not ({ends} points)."
    return f"It recovers {success}, {who.explains} alone {baseline}: no leak was detected ({ends} points)."


def leak_range(leakage: RecoveryLeakage) -> str:
    """The interval of the leak in points, with signs where it reaches below 0."""
    ends = leakage.leak.lower, leakage.leak.upper
    words = [f"{100 * end:.1f}".replace("-", "−") for end in ends]
    return f"{words[0]} to {words[1]}"


def recovery_sentences(audit: ModelAudit) -> list[str]:
    """What each attack recovered, the ceiling of the proof, and the ε that follows."""
    sentences = []
    for result in audit.recoveries:
        leakage = result.leakage
        words = (
            f"“{result.name}” recovers {percent(leakage.success.value)} ({rate_range(leakage.success)}) of "
            f"{count(leakage.inside)} targets in the data ({leakage.criterion}). {leak_sentence(leakage)}"
        )
        if result.ceiling is not None:
            most = percent_at_most(result.ceiling)
            words += f" By the claim, no attack recovers more than {most} at this baseline."
        if result.epsilon:
            surest = "" if leakage.detected else " The targets that it is surest of tell more:"
            shows = "it shows" if surest else "It shows"
            words += f"{surest} {shows} ε ≥ {at_least(result.epsilon)} at δ = {small(audit.delta)}."
        sentences.append(words)
    return sentences


def recovery_clause(audit: ModelAudit) -> str:
    """A clause on the recovery that leaks most, for the verdict."""
    found = [result for result in audit.recoveries if result.detected]
    worst = max(found, key=lambda result: abs(result.leakage.leak.value))
    leakage = worst.leakage
    shown = f" and ε is at least {at_least(worst.epsilon)}" if worst.epsilon else ""
    if leakage.detected:
        return (
            f"“{worst.name}” recovers {percent(leakage.success.value)} of targets in the data, against "
            f"{percent(leakage.baseline.value)} by {_baseline_words(leakage)}{shown}"
        )
    for group in worst.groups:
        if group.leakage.detected:
            return (
                f"“{worst.name}” recovers {percent(group.leakage.success.value)} of targets of group "
                f"{group.name} in the data, against {percent(group.leakage.baseline.value)} by "
                f"{_baseline_words(group.leakage)}{shown}"
            )
    return f"“{worst.name}” shows ε ≥ {at_least(worst.epsilon or 0.0)}"


def recovery_breach(result: RecoveryResult) -> str:
    """A clause on a success that is above the ceiling of the claim."""
    return (
        f"“{result.name}” recovers at least {percent(result.leakage.success.lower)} of targets in the data, "
        f"and with a baseline of at most {percent(result.leakage.baseline.upper)} the claim allows any "
        f"attack {percent_at_most(result.sure_ceiling or 0.0)}"
    )


def _baseline_words(leakage: RecoveryLeakage) -> str:
    return _BASELINES[leakage.baseline_kind].rival
