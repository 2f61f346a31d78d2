"""What was measured, as Markdown."""

from collections.abc import Iterable, Sequence

from bars import MEASURABLE, Bar, bars, best, mean, memory, parameters
from catalogue import TABLES, TASKS
from contestants import CONTESTANTS, OPACUS, PEERS, PLAIN, SECURE
from extras import Extras
from foreign_bars import foreign_bars
from race import Cell

Agreements = dict[tuple[str, str], float | str]


def report(facts: Sequence[str], agreements: Agreements, cells: list[Cell], extras: Extras | None) -> str:
    foreign = [cell for cell in cells if cell.model in TABLES["foreign"]]
    judged = foreign_bars(foreign) if foreign else []
    if len(foreign) < len(cells) or extras is not None:
        judged = [*bars([cell for cell in cells if cell not in foreign], extras), *judged]
    parts = ["\n".join(f"- {fact}" for fact in facts)]
    if cells:
        parts += [_steps(cells), _leads(cells), _memory(cells)]
    if extras is not None:
        parts.append(_extras(extras))
    parts += [_bars(judged), _remarks(agreements, cells)]
    return "\n\n".join(parts)


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = list(heads)
    lines = [heads, ["---"] * len(heads), *(list(row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _steps(cells: list[Cell]) -> str:
    """One table: the time of plain torch, and everybody's over it."""
    others = _others(cells)
    rows = []
    for cell in cells:
        plain, own = cell.times[PLAIN].seconds, cell.times[SECURE].seconds
        size = f"{parameters(cell.model):,}"
        rows.append(
            [
                f"{TASKS[cell.model].title}, {cell.lot}",
                size,
                _milliseconds(plain),
                _milliseconds(own),
                *(_cell(cell, name) for name in others),
            ]
        )
    heads = ["model, lot", "parameters", f"{PLAIN}, ms", f"{SECURE}, ms", *others]
    note = "Milliseconds of a full step, and then each contestant's time ÷ plain torch in its default layout."
    return f"### Step time\n\n{note}\n\n{_table(heads, rows)}"


def _others(cells: list[Cell]) -> list[str]:
    """Those that took part, beside plain torch."""
    return [name for name in CONTESTANTS if name != PLAIN and any(name in cell.times for cell in cells)]


def _cell(cell: Cell, name: str) -> str:
    times = cell.times.get(name)
    if times is None or times.slow or times.failure:
        return "–"
    ratio = cell.ratio(name)
    return _ratio(ratio)


def _leads(cells: list[Cell]) -> str:
    rows = []
    for cell in cells:
        opacus, peer = best(cell, OPACUS), best(cell, PEERS)
        rows.append([f"{TASKS[cell.model].title}, {cell.lot}", *_who(opacus), *_who(peer)])
    for model in dict.fromkeys(cell.model for cell in cells):
        rows.append(_means(f"*{TASKS[model].title}*", [cell for cell in cells if cell.model == model]))
    rows.append(_means("**all**", cells))
    heads = ["model, lot", "best Opacus ÷ Privet", "mode", "best peer ÷ Privet", "which"]
    return f"### Times faster than peers\n\n{_table(heads, rows)}\n\nThe last lines are geometric means."


def _means(title: str, cells: list[Cell]) -> list[str]:
    line = [title]
    for names in (OPACUS, PEERS):
        line += [_ratio(mean(one[0] for cell in cells if (one := best(cell, names)) is not None)), ""]
    return line


def _who(found: tuple[float, str] | None) -> tuple[str, str]:
    return ("–", "–") if found is None else (_ratio(found[0]), found[1].removeprefix("Opacus "))


def _memory(cells: list[Cell]) -> str:
    others = _others(cells)
    rows = [
        [
            f"{TASKS[cell.model].title}, {cell.lot}",
            f"{cell.times[PLAIN].memory / 2**20:.1f}",
            *(_ratio(memory(cell, name)) for name in others),
        ]
        for cell in cells
    ]
    note = (
        f"Megabytes by which steps raise the peak of resident memory above model and data, and each contestant's ÷ plain "
        f"torch's; – where plain torch needs less than {MEASURABLE >> 20} MB."
    )
    return f"### Peak extra memory\n\n{note}\n\n{_table(['model, lot', f'{PLAIN}, MB', *others], rows)}"


def _extras(extras: Extras) -> str:
    parts = ["### Noise, lots, import"]
    if isinstance(extras.noise, str):
        parts.append(f"Noise: {extras.noise}")
    else:
        parts.append(_table(["noise", "ns a parameter"], ([n, f"{v:.2f}"] for n, v in extras.noise.items())))
    rows = []
    for model, said in extras.loading.items():
        if isinstance(said, str):
            rows.append([TASKS[model].title, said, "–", "–"])
        else:
            rows.append([TASKS[model].title, *(f"{value:.3f}" for value in said)])
    parts.append(_table(["model", "drawing a lot, ms", "gathering it, ms", "whole step, ms"], rows))
    parts.append("; ".join(f"`{name}`: {seconds:.2f} s" for name, seconds in extras.imports.items()))
    return "\n\n".join(parts)


def _bars(judged: list[Bar]) -> str:
    counts = [sum(bar.met is verdict for bar in judged) for verdict in (True, False, None)]
    rows = ([bar.what, bar.wanted, bar.found, bar.verdict] for bar in judged)
    summary = f"{counts[0]} met, {counts[1]} missed, {counts[2]} not measured."
    return f"### Bars\n\n{summary}\n\n{_table(['what', 'wanted', 'found', ''], rows)}"


def _remarks(agreements: Agreements, cells: list[Cell]) -> str:
    """Who disagrees with a loop over examples, who failed, and who is too slow."""
    numbers = [value for value in agreements.values() if not isinstance(value, str)]
    wrong = [
        (key, value)
        for key, value in agreements.items()
        if isinstance(value, str) or value > TASKS[key[1]].tolerance
    ]
    lines = [
        f"Clipped sums beside a loop over examples: {len(numbers)} compared, largest difference "
        f"{max(numbers, default=0):.0e} of the largest number; {len(wrong)} failed or differ by more than rounding does."
    ]
    for (name, model), value in wrong:
        said = value if isinstance(value, str) else f"differs by {value:.1e}"
        lines.append(f"{name} on {model}: {said}")
    for cell in cells:
        for name, times in cell.times.items():
            if times.failure:
                lines.append(f"{name} on {cell.model}, lot {cell.lot}: {times.failure}")
    slow = [f"{n} on {c.model} {c.lot}" for c in cells for n, t in c.times.items() if t.slow]
    if slow:
        lines.append(f"Too slow to be measured: {', '.join(slow)}")
    return "### Remarks\n\n" + "\n".join(f"- {line}" for line in lines)


def _milliseconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{1e3 * seconds:.2f}"


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}" if value < 10 else f"{value:.0f}"
