"""Runs in the peer's own environment: ``python splink_peer.py FOLDER``.

Splink 5 on DuckDB, as its documentation links two tables: u from a million random pairs, m by expectation–maximisation over two
blocking rules, term frequencies on, a comparison of its library for each kind of column. FOLDER holds ``published.csv``,
``known.csv`` (with ``unique_id``) and ``kinds.json``; the answer is ``splink.csv`` with the probability of each pair above 0.001.
"""

import json
import sys
import time
from itertools import combinations
from pathlib import Path

import pandas as pd
import splink.comparison_library as cl
from splink import Linker, SettingsCreator, block_on
from splink.internals.duckdb.database_api import DuckDBAPI


def compare(name, kind):
    if kind == "date":
        return cl.DateOfBirthComparison(
            name,
            input_is_string=True,
            datetime_format="%Y-%m-%d",
            datetime_thresholds=[1, 1, 10],
            datetime_metrics=["month", "year", "year"],
            invalid_dates_as_null=False,
        )
    if kind == "code":
        return cl.LevenshteinAtThresholds(name, [1, 2]).configure(term_frequency_adjustments=True)
    if kind == "exact":
        return cl.ExactMatch(name).configure(term_frequency_adjustments=True)
    return cl.NameComparison(name).configure(term_frequency_adjustments=True)


def main(folder):
    kinds = json.loads((folder / "kinds.json").read_text())
    published, known = (pd.read_csv(folder / f"{name}.csv", dtype=str) for name in ("published", "known"))
    for frame in (published, known):
        frame["unique_id"] = frame["unique_id"].astype(int)
    started = time.process_time()
    api = DuckDBAPI()
    tables = [
        api.register(published, dataset_display_name="published"),
        api.register(known, dataset_display_name="known"),
    ]
    blocked = [name for name, kind in kinds.items() if kind != "exact"]
    settings = SettingsCreator(
        link_type="link_only",
        comparisons=[compare(name, kind) for name, kind in kinds.items()],
        blocking_rules_to_generate_predictions=[block_on(name) for name in blocked],
        em_convergence=1e-4,
        max_iterations=50,
    )
    linker = Linker(tables, settings, log_level="ERROR")
    linker.training.estimate_probability_two_random_records_match(
        [block_on(a, b) for a, b in combinations(blocked[:3], 2)], recall=0.8
    )
    linker.training.estimate_u_using_random_sampling(max_pairs=1e6, seed=17)
    for name in (blocked[1], blocked[-1]):
        linker.training.estimate_parameters_using_expectation_maximisation(
            block_on(name), record_sample_proportion=1.0
        )
    pairs = linker.inference.predict(threshold_match_probability=1e-3).as_pandas_dataframe()
    seconds = time.process_time() - started
    pairs[["unique_id_l", "unique_id_r", "source_dataset_l", "match_probability", "match_weight"]].to_csv(
        folder / "splink.csv", index=False
    )
    (folder / "splink.json").write_text(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
