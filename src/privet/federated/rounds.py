"""The loop over rounds, with its checkpoint, its progress bar and its interruption.

A round is reserved in the journal before anything is asked of clients. Its new weights are on disk before
anybody sees them. So a server that is killed at any point has written down every round that it may have
spent.
"""

import time
from collections.abc import Callable

from privet.accounting import account
from privet.federated.collecting import Collector
from privet.federated.server_run import ServerRun
from privet.federated.terms import Terms
from privet.training.loop.checkpoint import Checkpoint
from privet.training.loop.progress import TrainingProgress, catch_interrupt

__all__ = ["take_rounds"]


def take_rounds(
    server: ServerRun,
    collector: Collector,
    terms: Terms,
    checkpoint: Checkpoint | None,
    delta: float | None,
) -> bool:
    """Take the remaining rounds. Return whether somebody ended them early."""
    final_round = terms.rounds if checkpoint is None else checkpoint.final_step
    interrupted = False
    with (
        catch_interrupt() as interruption,
        TrainingProgress(
            final_round, _epsilon_after(terms, checkpoint, delta), title="federated training", unit="rounds"
        ) as progress,
    ):
        progress.begin(server.rounds_done)
        while server.rounds_done < final_round and not interrupted:
            _take_round(server, collector, checkpoint)
            progress.show(server.rounds_done)
            interrupted = interruption.requested
    return interrupted and server.rounds_done < final_round


def _take_round(server: ServerRun, collector: Collector, checkpoint: Checkpoint | None) -> None:
    start = time.monotonic()
    if checkpoint is not None:
        checkpoint.reserve(server.rounds_done + 1)
    cohort = server.draw_cohort()
    collected = server.collect(collector, cohort)
    before = server.vector.clone()
    server.step(collected, time.monotonic() - start, len(cohort))
    if checkpoint is not None and server.can_save:
        checkpoint.save(server.rounds_done, server.state())
    server.show(before, collected, cohort)
    server.watch()


def _epsilon_after(
    terms: Terms, checkpoint: Checkpoint | None, delta: float | None
) -> Callable[[int], float] | None:
    if delta is None:
        return None

    def epsilon_after(rounds: int) -> float:
        ledger = terms.ledger(rounds) if checkpoint is None else checkpoint.ledger(rounds)
        return 0.0 if ledger is None else account(ledger).epsilon(delta=delta)

    return epsilon_after
