"""What the crash harness asks: questions without data, whose answers are fresh random numbers.

A number that was drawn twice for one charge, or given for two, shows; a real mechanism would hide it in its
noise.
"""

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

from privet.adjacency import AddRemove, Unit
from privet.curator.plans import AnswerWorker, PlannedQuestion, QuestionPlanner
from privet.errors import InvalidArgument
from privet.events import DiscreteLaplace
from privet.ledger import Entry

__all__ = ["ADJACENCY", "DATASET", "FINGERPRINT", "SCALES", "DrawingWorker", "NumberPlanner", "note_draw"]

DATASET = "selftest"
FINGERPRINT = "the content of the selftest"
ADJACENCY = AddRemove(Unit.USER)
SCALES = (50, 100)  # ε = 1/50 and 1/100


@final
class NumberPlanner(QuestionPlanner):
    """A question is {"number": n}; its noise depends on n alone."""

    def plan(self, dataset: str, question: Mapping[str, Any]) -> PlannedQuestion:
        number = question.get("number")
        if dataset != DATASET or not isinstance(number, int):
            raise InvalidArgument("A question of the selftest must have a whole 'number'. Give one.")
        scale = SCALES[number % len(SCALES)]
        return PlannedQuestion(
            key=f"{dataset}:{number}",
            canonical={"number": number},
            adjacency=ADJACENCY,
            entries=(Entry(f"number {number}", DiscreteLaplace(float(scale), 1)),),
            epsilon=1 / scale,
            delta=0.0,
            answers=({"label": "number", "epsilon": 1 / scale, "delta": 0.0},),
        )

    def describe(self, dataset: str) -> Mapping[str, Any]:
        return {"description": dataset}


@final
class DrawingWorker(AnswerWorker):
    """Answers with a fresh number, and writes down first for which charge it draws."""

    def __init__(self, draws: Path) -> None:
        self._draws = draws

    def answer(self, dataset: str, planned: PlannedQuestion, *, request: str) -> Mapping[str, Any]:
        return {"value": note_draw(self._draws, request)}

    def fingerprint(self, dataset: str) -> str:
        return FINGERPRINT


def note_draw(draws: Path, request: str) -> int:
    """A fresh number; one write, which survives the death of the process, says for which charge."""
    value = secrets.randbits(48)
    descriptor = os.open(draws, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, f"{request} {value}\n".encode())
    finally:
        os.close(descriptor)
    return value
