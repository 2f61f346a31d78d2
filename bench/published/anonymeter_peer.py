"""Anonymeter's three risks on tables in a folder, as JSON. Runs in a venv of its own; see synthetic.py.

    /tmp/bench-published-venv-synth/bin/python anonymeter_peer.py FOLDER SECRET ATTEMPTS

The folder holds original.parquet, control.parquet and one file for each generator.
"""

import json
import logging
import sys
import time
import warnings
from pathlib import Path

import pandas as pd
from anonymeter.evaluators import InferenceEvaluator, LinkabilityEvaluator, SinglingOutEvaluator


def main():
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    folder, secret, attempts = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    original, control = (pd.read_parquet(folder / f"{name}.parquet") for name in ("original", "control"))
    for path in sorted(folder.glob("made-*.parquet")):
        synthetic = pd.read_parquet(path)
        for risk, evaluate in risks(original, control, synthetic, secret, attempts).items():
            began = time.process_time()
            try:
                found = evaluate()
                sides = (found.n_success, found.n_control, found.n_attacks_ori, found.n_attacks_control)
                counts = [round(float(count)) for count in sides]
            except Exception as error:
                counts = f"{type(error).__name__}: {error}"[:200]
            answer = {"generator": path.stem.removeprefix("made-"), "risk": risk, "counts": counts}
            print(json.dumps(answer | {"seconds": time.process_time() - began}), flush=True)


def risks(original, control, synthetic, secret, attempts):
    names = list(original.columns)
    tables = {"ori": original, "syn": synthetic, "control": control, "n_attacks": attempts}

    def single_out(mode):
        return (
            SinglingOutEvaluator(**tables, n_cols=3, max_attempts=20 * attempts, seed=0)
            .evaluate(mode)
            .results()
        )

    return {
        "singling out, one column": lambda: single_out("univariate"),
        "singling out, 3 columns": lambda: single_out("multivariate"),
        "linkability": lambda: (
            LinkabilityEvaluator(**tables, aux_cols=(names[::2], names[1::2])).evaluate(n_jobs=1).results()
        ),
        "inference": lambda: (
            InferenceEvaluator(**tables, aux_cols=[name for name in names if name != secret], secret=secret)
            .evaluate(n_jobs=1)
            .results()
        ),
    }


if __name__ == "__main__":
    main()
