"""The bars of the table of foreign models."""

from collections.abc import Iterable

from bars import Bar, at_least, at_most, best, mean, memory
from contestants import OPACUS, PEERS, SECURE
from foreign_models import BIG
from race import Cell

LOT = 32  # the one that is judged beside plain torch
DEAR = ("t5-mini", "bart-mini", "bilstm-packed", "gemma-mini")  # models with a bar of their own


def foreign_bars(cells: list[Cell]) -> list[Bar]:
    timed = [cell for cell in cells if cell.model != BIG]
    judged = {cell.model: r for cell in timed if cell.lot == LOT and (r := cell.ratio(SECURE)) is not None}
    worst = max(judged, key=judged.__getitem__, default="")
    found = [
        at_most(
            f"lot {LOT}: time ÷ plain torch, geometric mean of {len(judged)}", 1.25, mean(judged.values())
        ),
        at_most(f"lot {LOT}: time ÷ plain torch, worst ({worst})", 1.6, judged.get(worst)),
    ]
    found += [at_most(f"{model}, lot {LOT}: time ÷ plain torch", 1.5, judged.get(model)) for model in DEAR]
    opacus = _leads(timed, OPACUS)
    found.append(at_least(f"best Opacus mode ÷ Privet, geometric mean of {len(opacus)}", 3.0, mean(opacus)))
    behind = [
        f"{cell.model} {cell.lot} ({one[1]}, {one[0]:.2f})"
        for cell in timed
        if (one := best(cell, PEERS)) is not None and one[0] < 1
    ]
    peers = _leads(timed, PEERS)
    said = ", ".join(behind) or (f"closest {min(peers):.2f}×" if peers else "–")
    found.append(Bar("behind no peer in any cell", "none", said, not behind if peers else None))
    big = [cell for cell in cells if cell.model == BIG]
    extra = memory(big[0], SECURE) if big else None
    found.append(at_most(f"{BIG}, lot {LOT}: extra memory ÷ plain torch", 2.0, extra))
    return found


def _leads(cells: Iterable[Cell], names: Iterable[str]) -> list[float]:
    names = list(names)
    return [one[0] for cell in cells if (one := best(cell, names)) is not None]
