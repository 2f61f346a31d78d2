"""A federated run as a plan that a checkpoint keeps: its terms, and what else must stay the same."""

import json
from typing import Any, final

from privet.caveats import Caveat
from privet.federated.terms import LostRounds, Terms
from privet.ledger import Ledger
from privet.training.loop.plan_documents import plan_to_plain
from privet.training.loop.resumable_plan import ResumablePlan

__all__ = ["FederatedPlan"]


@final
class FederatedPlan(ResumablePlan):
    """The terms of a run, and a description of its other parts by their names."""

    def __init__(self, terms: Terms, population: int, length: int, parts: dict[str, object]) -> None:
        self._terms = terms
        self._plain = json.loads(
            json.dumps(
                {
                    "kind": "federated",
                    "rounds": terms.rounds,
                    "population": population,
                    "length": length,
                    "accounted": None if terms.plan is None else plan_to_plain(terms.plan),
                    "clip": repr(terms.clip),
                    "sampling": repr(terms.sampling),
                    **{name: repr(part) for name, part in parts.items()},
                }
            )
        )

    @property
    def steps(self) -> int:
        return self._terms.rounds

    def ledger(
        self, steps: int, *, abandoned: LostRounds = (), caveats: frozenset[Caveat] = frozenset()
    ) -> Ledger | None:
        return self._terms.ledger(steps, lost=abandoned, caveats=caveats)

    def to_plain(self) -> dict[str, Any]:
        plain: dict[str, Any] = self._plain
        return plain
