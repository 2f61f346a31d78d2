"""Synthetic data beside noise on the counts themselves, and naive Bayes beside its peers, on UCI Adult.

    bench/synthetic/run.sh [--quick] [--data FILE] [--markdown docs/synthetic.md]

With --markdown the results section of that page is rewritten and the picture beside it is drawn.
"""

import argparse
import datetime
import os
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import bayes
import numpy as np
from adult import DATA, settings, table
from methods import DELTA, METHODS, measured
from picture import draw

from privet.adjacency import AddRemove
from privet.releasing.synthetic import MST, MirrorDescent, PrivatePGM

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"


def main() -> None:
    options = _options()
    rows = table(options.data)
    epsilons = (0.1, 1.0, 10.0) if options.quick else EPSILONS
    sections, pictured = [], {}
    for setting in settings(options.quick):
        found = _errors(setting, rows, epsilons)
        pictured[setting.title] = {
            name: {epsilon: scores[0] for epsilon, scores in by.items()} for name, by in found.items()
        }
        sections.append(_table(f"{setting.title}; mean of {setting.repeats}", found, epsilons))
        print(sections[-1], flush=True)
    sections.append(_estimators(settings(options.quick)[0].domain, rows))
    print(sections[-1], flush=True)
    scores = bayes.rows(rows, (0.01, 0.1, 1.0))
    sections.append(_markdown("Naive Bayes: accuracy on the test rows", ("classifier", "accuracy"), scores))
    print(sections[-1], flush=True)
    if options.markdown:
        picture = options.markdown.parent / "pictures" / "synthetic.svg"
        draw(picture, pictured)
        _rewrite(options.markdown, "\n\n".join([_machine(), *sections]))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one run of each, at three ε")
    parser.add_argument("--data", type=Path, default=DATA, metavar="FILE", help="adult.csv.gz")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="rewrite the results section of this page"
    )
    return parser.parse_args()


def _errors(setting, rows, epsilons):
    """method → ε → (mean errors, mean seconds)."""
    found = {}
    for method in METHODS:
        if not method.fits(setting.domain):
            continue
        for epsilon in epsilons:
            print(f"… {setting.title}: {method.name}, ε = {epsilon:g}", file=sys.stderr, flush=True)
            runs = [measured(method, setting.domain, rows, epsilon) for _ in range(setting.repeats)]
            for name in runs[0]:
                label = f"{name}" + (" (δ = 0)" if method.pure else "")
                errors = np.mean([run[name].errors for run in runs], axis=0)
                seconds = float(np.mean([run[name].seconds for run in runs]))
                found.setdefault(label, {})[epsilon] = (tuple(errors.tolist()), seconds)
    return found


def _table(title, found, epsilons):
    head = ("method", *(f"ε = {epsilon:g}" for epsilon in epsilons), "seconds")
    body = []
    for name, by in found.items():
        cells = [" / ".join(f"{error:.3f}" for error in by[epsilon][0]) for epsilon in epsilons]
        times = [by[epsilon][1] for epsilon in epsilons]
        body.append((name, *cells, f"{min(times):.1f} to {max(times):.1f}"))
    return _markdown(f"{title}: error of 1- / 2- / 3-way marginals", head, body)


def _estimators(domain, rows):
    """The same mechanism with our own estimator and with private-PGM's."""
    body = []
    for name, estimator in (
        ("MirrorDescent(1000, 1e-4)", MirrorDescent(1000, 1e-4)),
        ("PrivatePGM(1000)", PrivatePGM(1000)),
    ):
        asked = MST(domain=domain, epsilon=1.0, delta=DELTA, adjacency=AddRemove(), estimator=estimator)
        began = time.perf_counter()
        released = asked.release(rows)
        body.append((name, f"{time.perf_counter() - began:.1f} s", f"{released.total:.0f}"))
    return _markdown(
        "MST, ten columns, ε = 1, by estimator", ("estimator", "time of a release", "estimated rows"), body
    )


def _markdown(title, head, body):
    lines = [f"### {title}", "", f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in body)])


def _machine():
    versions = ", ".join(
        f"{name} {version(name)}" for name in ("privet", "numpy", "mbi", "jax", "scikit-learn", "diffprivlib")
    )
    return "\n".join(
        (
            f"- Date: {datetime.datetime.now(datetime.UTC):%Y-%m-%d}",
            f"- Machine: {os.cpu_count()} cores, {platform.system()} {platform.machine()}; load average "
            f"{os.getloadavg()[0]:.1f} at the end",
            f"- Python {platform.python_version()}; {versions}",
        )
    )


def _rewrite(page, text):
    old = page.read_text(encoding="utf-8")
    if BEGIN not in old or END not in old:
        raise SystemExit(
            f"{page} must hold the lines '{BEGIN}' and '{END}'. Add them where the results belong."
        )
    page.write_text(
        f"{old.partition(BEGIN)[0]}{BEGIN}\n\n{text}\n\n{END}{old.partition(END)[2]}", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
