"""From recoveries to what a report says of them, and ``audit_recoveries`` for attacks that were run
elsewhere.
"""

import time
from collections.abc import Sequence

import numpy as np

from privet import __version__
from privet.accounting import account
from privet.arguments import open_fraction
from privet.auditing import Shares, bound_recoveries, measure_recoveries, recoveries_by_group
from privet.checks import Check, Outcome
from privet.errors import InvalidArgument
from privet.fingerprints import (
    FingerprintKey,
    Fingerprints,
    ledger_fingerprint,
    scores_content,
    take_fingerprint,
)
from privet.guarantees import Guarantee
from privet.ledger import Ledger
from privet.pipeline.reproducing import one_line, recoveries_call
from privet.recoveries import Recoveries
from privet.reporting.facts import ModelAudit, Origin
from privet.reporting.recovery_facts import RecoveryResult
from privet.reporting.report import Report

__all__ = ["audit_recoveries", "check_targets", "judge_recoveries"]

_FEW = 30


def judge_recoveries(
    recoveries: Recoveries, claim: Guarantee | None, *, delta: float, shares: Shares
) -> RecoveryResult:
    """Success, baseline, leak, ceiling and bound on ε of one attack, at their shares of the confidence."""
    leakage = measure_recoveries(recoveries, confidence=shares.interval)
    groups = recoveries_by_group(recoveries, confidence=shares.table)
    return RecoveryResult(
        adversary=recoveries.adversary,
        leakage=leakage,
        bound=bound_recoveries(recoveries, claim, delta=delta, confidence=shares.bound),
        ceiling=leakage.ceiling(claim),
        sure_ceiling=leakage.sure_ceiling(claim),
        groups=groups,
        group_failure=0.0 if recoveries.groups is None else 1 - shares.table,
        exhibits=recoveries.exhibits,
    )


def audit_recoveries(
    recoveries: Recoveries | Sequence[Recoveries],
    *,
    name: str = "model",
    ledger: Ledger | None = None,
    delta: float = 1e-5,
    confidence: float = 0.95,
    key: FingerprintKey | None = None,
) -> Report:
    """The report of attacks that recovered something and were run elsewhere.

    All statements hold together with ``confidence``. A leak whose interval excludes 0 counts as detected;
    success above the ceiling that the ledger proves breaks the claim. ``report.save(path, exhibits=True)``
    shows recovered things beside the truth.

    >>> import numpy as np
    >>> from privet.views import Adversary
    >>> coin = np.arange(400) % 2 == 0
    >>> adversary = Adversary(sees="the confidences", knows="the other columns", wants="the genotype")
    >>> recoveries = Recoveries("guess the genotype", adversary, "exactly right", coin, coin)
    >>> audit_recoveries(recoveries).audits[0].standing.value
    'leaks'
    """
    started = time.monotonic()
    open_fraction("delta", delta)
    every = [recoveries] if isinstance(recoveries, Recoveries) else list(recoveries)
    if not every:
        raise InvalidArgument("'recoveries' must hold at least one attack, got none. Run an attack first.")
    if len({each.attack for each in every}) < len(every):
        raise InvalidArgument("'recoveries' must have names that differ, got one twice. Name each attack.")
    claim = None if ledger is None else account(ledger)
    shares = Shares.of(confidence, others=[], recoveries=every)
    secret = FingerprintKey.generate() if key is None else key
    audited = ModelAudit(
        name=name,
        delta=delta,
        results=[],
        recoveries=[judge_recoveries(each, claim, delta=delta, shares=shares) for each in every],
        claim=claim,
        ledger=ledger,
        checks=[check_targets(each) for each in every],
        population=max(int(each.inside.sum()) for each in every),
        fingerprints=_identify_hits(every, ledger, secret),
        seconds=time.monotonic() - started,
    )
    call = recoveries_call(name=name, ledger=ledger, delta=delta, confidence=confidence)
    return Report(
        audits=(audited,),
        origin=Origin(command=one_line(call), version=__version__, call=call),
        key=secret,
    )


def _identify_hits(every: Sequence[Recoveries], ledger: Ledger | None, key: FingerprintKey) -> Fingerprints:
    """The fingerprints of the hits of both sides, as of scores: a hit is 1 and a miss is 0."""
    sides = [np.concatenate([each.hits[each.inside == side] for each in every]) for side in (True, False)]
    inside, outside = (
        take_fingerprint("scores", scores_content(side.astype(np.float64)), key) if len(side) else None
        for side in sides
    )
    return Fingerprints(
        key=key.name,
        data="scores",
        members=inside,
        nonmembers=outside,
        ledger=None if ledger is None else ledger_fingerprint(ledger),
    )


def check_targets(recoveries: Recoveries) -> Check:
    """Whether there are enough targets on the smaller side to see a leak of a few points."""
    inside = int(recoveries.inside.sum())
    outside = len(recoveries) - inside if recoveries.members is not None else inside
    few = min(inside, outside) < _FEW
    return Check(
        name=f"enough targets for {recoveries.attack}",
        outcome=Outcome.WARNED if few else Outcome.PASSED,
        finding=f"{inside} targets are in the data and {len(recoveries) - inside} were left out.",
        advice="Attack more targets: with so few, only a large leak can be seen." if few else "",
    )
