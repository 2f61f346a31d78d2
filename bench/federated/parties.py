"""A round of a sum protocol with the processor time of each party."""

import os
import resource
import statistics
from collections.abc import Collection, Mapping
from dataclasses import dataclass

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from privet.federated.sum_protocols import MessageRefused, SumProtocol, SumResult

BEGIN, END = "<!-- {name}: begin -->", "<!-- {name}: end -->"


@dataclass(frozen=True)
class MeasuredRound:
    result: SumResult
    server: float  # seconds of processor time
    clients: Mapping[int, float]
    sent: Mapping[int, int]  # bytes
    total: float

    def client_times(self) -> tuple[float, float]:
        """Median and largest, of those who stayed to the end."""
        times = [self.clients[client] for client in self.result.contributors]
        return statistics.median(times), max(times)


def processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure_round(
    protocol: SumProtocol, vectors: np.ndarray, *, leaving: Mapping[int, Collection[int]]
) -> MeasuredRound:
    count, length = vectors.shape
    clients, sent, states = dict.fromkeys(range(count), 0.0), dict.fromkeys(range(count), 0), {}
    begun = start = processor_seconds()
    served = protocol.serve(round_number=1, clients=list(range(count)), length=length)
    messages = next(served)
    server, exchange, gone = processor_seconds() - start, 0, set()
    while True:
        gone |= set(leaving.get(exchange, ()))
        replies = {}
        for client, message in messages.items():
            if client in gone:
                continue
            start = processor_seconds()
            try:
                replies[client], states[client] = protocol.answer(
                    client=client,
                    message=message,
                    state=states.get(client, b""),
                    vector=lambda client=client: vectors[client],
                )
            except MessageRefused as refused:
                raise SystemExit(f"client {client}: {refused}") from None
            clients[client] += processor_seconds() - start
            sent[client] += len(replies[client])
        exchange += 1
        start = processor_seconds()
        try:
            messages = served.send(replies)
        except StopIteration as done:
            server += processor_seconds() - start
            return MeasuredRound(done.value, server, clients, sent, processor_seconds() - begun)
        server += processor_seconds() - start


def write_section(page, name: str, text: str) -> None:
    """Rewrite the results section of this name."""
    begin, end = BEGIN.format(name=name), END.format(name=name)
    before, rest = page.read_text(encoding="utf-8").split(begin)
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{rest.split(end)[1]}", encoding="utf-8")
