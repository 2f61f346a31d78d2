"""The bars, computed from what was measured: what was asked for, what was found, and whether it is met."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from catalogue import TASKS
from contestants import CHANNELS_LAST, OPACUS, PEERS, PLAIN, SECURE
from extras import Extras
from race import Cell

MILLION = 1_000_000
MEASURABLE = 4 << 20  # bytes of plain torch below which a ratio of memory is that of rounding


@dataclass(frozen=True)
class Bar:
    what: str
    wanted: str
    found: str
    met: bool | None  # None: not measured

    @property
    def verdict(self) -> str:
        return {True: "met", False: "MISSED", None: "not measured"}[self.met]


def best(cell: Cell, names: Iterable[str]) -> tuple[float, str] | None:
    """How many times slower than Privet the best of these is, and its name."""
    found = [(ratio, name) for name in names if (ratio := cell.ratio(name, SECURE)) is not None]
    return min(found) if found else None


def mean(values: Iterable[float]) -> float | None:
    """The geometric mean."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else None


def parameters(model: str) -> int:
    return sum(p.numel() for p in TASKS[model].model().parameters())


def memory(cell: Cell, name: str) -> float | None:
    """Extra memory over plain torch's, where that is large enough to be measured."""
    own, plain = cell.times.get(name), cell.times.get(PLAIN)
    if own is None or plain is None or plain.memory < MEASURABLE or not own.rounds:
        return None
    return own.memory / plain.memory


def bars(cells: list[Cell], extras: Extras | None) -> list[Bar]:
    found = [bar for cell in cells for bar in _of_cell(cell)]
    ratios = [r for cell in cells if (r := cell.ratio(SECURE)) is not None]
    found.append(at_most(f"time ÷ plain torch, geometric mean of {len(ratios)}", 1.0, mean(ratios)))
    for title, names, least in (("the best Opacus mode", OPACUS, 4.0), ("the best peer", PEERS, 2.5)):
        each = [one[0] for cell in cells if (one := best(cell, names)) is not None]
        found.append(at_least(f"faster than {title} of each cell, geometric mean", least, mean(each)))
    lead = [(one[0], one[1], cell) for cell in cells if (one := best(cell, PEERS)) is not None]
    behind = [f"{cell.model} {cell.lot} ({name}, {ratio:.2f})" for ratio, name, cell in lead if ratio < 1]
    said = ", ".join(behind) or (f"closest {min(one[0] for one in lead):.2f}×" if lead else "–")
    found.append(Bar("behind no peer in any cell", "none", said, not behind if lead else None))
    return found + (_of_extras(extras) if extras is not None else [])


def _of_cell(cell: Cell) -> list[Bar]:
    task, where = TASKS[cell.model], f"{cell.model}, lot {cell.lot}"
    found: list[Bar] = []
    if task.images:
        found.append(at_most(f"{where}: time ÷ plain torch, default layout", 1.0, cell.ratio(SECURE)))
        found.append(
            at_most(f"{where}: time ÷ plain torch, channels last", 1.2, cell.ratio(SECURE, CHANNELS_LAST))
        )
    elif (limit := _limit(cell.model, cell.lot)) is not None:
        found.append(at_most(f"{where}: time ÷ plain torch", limit, cell.ratio(SECURE)))
    extra = memory(cell, SECURE)
    if extra is not None:
        found.append(at_most(f"{where}: extra memory ÷ plain torch", 2.4 if task.images else 1.5, extra))
    return found


def _limit(model: str, lot: int) -> float | None:
    if model == "gpt":
        return 1.15
    if model == "lstm":
        return 1.5
    if lot >= 256:
        return 1.10
    return 1.35 if parameters(model) > MILLION else None


def _of_extras(extras: Extras) -> list[Bar]:
    found = []
    for title, limit in (("seeded", 1.0), ("secure", 2.0)):
        value = None if isinstance(extras.noise, str) else extras.noise.get(f"Privet, {title}, compiled")
        found.append(at_most(f"{title} noise, ns a parameter", limit, value))
    for model, said in extras.loading.items():
        share = None if isinstance(said, str) else 100 * (said[0] + said[1]) / (said[2] - said[1])
        found.append(at_most(f"{model}: lots drawn and gathered, % of the rest of a step", 3.0, share))
    torch_alone, both = extras.imports.values()
    found.append(at_most("import privet.training after import torch, s", 0.2, both - torch_alone))
    return found


def at_most(what: str, limit: float, value: float | None) -> Bar:
    return Bar(what, f"≤ {limit:g}", _shown(value), None if value is None else round(value, 2) <= limit)


def at_least(what: str, limit: float, value: float | None) -> Bar:
    return Bar(what, f"≥ {limit:g}", _shown(value), None if value is None else value >= limit)


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
