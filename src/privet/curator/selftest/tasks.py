"""What the processes of the harness do: a gateway over the database under test, and a worker that draws."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

from privet.curator.plans import AnswerWorker, PlannedQuestion
from privet.curator.principals import Principal, Role
from privet.curator.selftest.dying import LineFault
from privet.curator.selftest.sockets import LineClient, Plain, serve_lines
from privet.curator.selftest.toys import DATASET, FINGERPRINT, NumberPlanner, note_draw
from privet.curator.storage.database_curator import DatabaseCurator
from privet.curator.storage.heads import HeadFile
from privet.errors import BudgetExceeded, PrivetError

__all__ = ["SocketWorker", "gateway_answer", "run_task"]


def run_task(task: str, options: Mapping[str, Any]) -> None:
    """Be a gateway or a worker until killed."""
    if task == "worker":
        draws: Path = options["draws"]
        serve_lines(options["socket"], lambda request: {"value": note_draw(draws, request["request"])})
        return
    curator = DatabaseCurator.open(
        options["address"],
        planner=NumberPlanner(),
        worker=SocketWorker(LineClient(options["worker"])),
        heads=HeadFile(options["head"]),
    )
    serve_lines(options["socket"], lambda request: gateway_answer(curator, request))


@final
class SocketWorker(AnswerWorker):
    """The worker in its own process."""

    def __init__(self, client: LineClient) -> None:
        self._client = client

    def answer(self, dataset: str, planned: PlannedQuestion, *, request: str) -> Mapping[str, Any]:
        return self._client.call({"request": request})

    def fingerprint(self, dataset: str) -> str:
        return FINGERPRINT


def gateway_answer(curator: DatabaseCurator, request: Plain) -> Plain:
    """One question of one analyst; ``die_at`` and ``raise_at`` are lines of the way to the answer."""
    who = Principal(account=request["account"], name=request["name"], role=Role.ANALYST)
    line, kill = request.get("die_at") or request.get("raise_at"), "raise_at" not in request
    fault = LineFault(line, kill=kill) if "die_at" in request or "raise_at" in request else None
    try:
        if fault is None:
            record = curator.ask(who, DATASET, {"number": request["number"]}, idempotency_key=request["key"])
        else:
            with fault:
                record = curator.ask(
                    who, DATASET, {"number": request["number"]}, idempotency_key=request["key"]
                )
    except BudgetExceeded:
        return {"status": "refused"}
    except PrivetError as refused:
        return {"status": "unavailable", "why": type(refused).__name__}
    except Exception as broken:
        return {
            "status": "broken",
            "why": type(broken).__name__,
            "lines": 0 if fault is None else fault.lines,
        }
    return {
        "status": str(record.status),
        "record": record.id,
        "stored": record.stored,
        "value": None if record.answer is None else record.answer["value"],
        "lines": 0 if fault is None else fault.lines,
    }
