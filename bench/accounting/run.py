"""Privet's accountant beside its peers: value, certified gap, error, time.

    bench/accounting/run.sh [--quick] [--markdown docs/benchmarks.md]

All tools answer in one process, in turns; the best time of each counts. A tool that cannot be imported, fails
or takes longer than a minute is shown as such.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from clock import Result, first_line, race
from questions import GROUPS, NoiseForEpsilon, NoiseForTpr, Setting
from tables import Bar, Deadline, machine, rewrite, table_of
from tools import Tool, every_tool

BARS = {
    NoiseForEpsilon: (Bar("dp-accounting PLD 1e-4", 30.0), Bar("dp-accounting PLD 1e-3", 5.0)),
    NoiseForTpr: (Deadline(0.5),),
}
NOTES = (
    "The error is relative to the exact value; “<” means that all digits of the exact value agree.",
    "“× Privet” is the tool's best time over Privet's. Privet's caches are cleared before every run.",
    "dp-accounting calibrates to 1e-4 of σ from its default bracket, Opacus to 1e-3 of ε (default 0.01), "
    "riskcal to 1e-3 of the FNR between σ 0.5 and 5, Privet to 1e-7 of σ without a bracket.",
)


def main() -> None:
    options = _options()
    tools, missing = _loaded([tool for tool in every_tool() if not (options.quick and tool.slow)])
    tables, everything = [], []
    for group in GROUPS:
        found = []
        for setting in group.settings:
            print(f"… {group.title}: {setting.label}", file=sys.stderr, flush=True)
            found.append((setting, race(tools, setting.question)))
        tables.append(table_of(group, found))
        everything += found
        print(tables[-1].as_text(), end="\n\n", flush=True)
    closing = [*NOTES, *missing, *machine([tool.package for tool in every_tool()])]
    verdicts = _verdicts(everything)
    print("\n".join([*closing, "", *verdicts]))
    if options.markdown:
        parts = [*(f"- {line}" for line in closing), "", *(f"- {line}" for line in verdicts)]
        text = "\n\n".join(["\n".join(parts), *(table.as_markdown() for table in tables)])
        rewrite(options.markdown, text)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="leave out the tools that take minutes")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="rewrite the results section of this page"
    )
    return parser.parse_args()


def _loaded(tools: list[Tool]) -> tuple[list[Tool], list[str]]:
    """The tools that import, and a line for each that does not."""
    ready, missing = [], []
    for tool in tools:
        try:
            tool.load()
        except Exception as broken:
            missing.append(f"{tool.name} is missing: {type(broken).__name__}: {first_line(broken)}")
        else:
            ready.append(tool)
    if not ready or ready[0].package != "privet":
        raise SystemExit("Privet itself must be importable. Run pip install -e . in this environment.")
    return ready, missing


def _verdicts(found: list[tuple[Setting, list[Result]]]) -> list[str]:
    """Whether each bar that the project has set itself is reached in this run."""
    return [
        line
        for kind, bars in BARS.items()
        for bar in bars
        for line in bar.lines([pair for pair in found if isinstance(pair[0].question, kind)])
    ]


if __name__ == "__main__":
    main()
