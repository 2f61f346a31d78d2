"""Questions drawn at random: some are refused, most are answered, and none may tell neighbours apart."""

from hypothesis import strategies as st

NUMBERS = st.one_of(
    st.integers(-200, 200), st.floats(-200, 200), st.sampled_from([1e300, -1e300, 2**53, 1e-300, 0.0])
)
NAMES = st.sampled_from(
    ["age", "cost", "ward", "urgent", "day", "note", "sex", "smokes", "patient", "", "nothing"]
)
WARDS = st.sampled_from(["surgery", "medicine", "children", "elsewhere", "attic", "é", "\x00"])
VALUES = st.one_of(
    NUMBERS, WARDS, st.booleans(), st.none(), st.sampled_from(["2024-02-01", "2024-02-30", "f"])
)


def optional(**fields):
    return st.fixed_dictionaries({}, optional=fields)


def merge(*parts):
    return st.tuples(*parts).map(
        lambda found: {name: value for part in found for name, value in part.items()}
    )


BOUNDS = st.one_of(
    st.just({}),
    st.tuples(NUMBERS, NUMBERS).map(lambda pair: {"lower": min(pair), "upper": max(pair)}),
)
KEYS = optional(
    by=st.lists(st.sampled_from(["ward", "urgent", "sex"]), min_size=1, max_size=2, unique=True),
    keys=st.one_of(st.just("discover"), st.lists(st.lists(VALUES, min_size=1, max_size=2), max_size=3)),
)
NUMERIC = st.sampled_from(["age", "cost", "age", "age", "ward"])
STATISTICS = st.one_of(
    merge(st.just({"kind": "count"}), KEYS),
    merge(st.fixed_dictionaries({"kind": st.sampled_from(["sum", "mean", "variance"]), "column": NUMERIC}), BOUNDS, KEYS),
    merge(st.fixed_dictionaries({"kind": st.just("quantile"), "column": NUMERIC, "probability": st.sampled_from([0.5, 0.01, 0.9, 1])}), BOUNDS, st.just({"candidates": 16})),
    st.fixed_dictionaries({"kind": st.just("histogram"), "column": NAMES}),
    st.fixed_dictionaries({"kind": st.just("top_k"), "column": st.just("ward"), "k": st.integers(1, 4), "categories": st.one_of(st.none(), st.just("discover"))}),
    st.fixed_dictionaries({"kind": st.just("marginal"), "columns": st.just(["ward", "urgent"])}),
    st.fixed_dictionaries({"kind": st.just("covariance"), "x": st.just("age"), "y": st.just("cost"), "y_lower": st.just(0), "y_upper": NUMBERS}),
).map(lambda found: {name: value for name, value in found.items() if value is not None})  # fmt: skip
LEAVES = st.one_of(
    st.fixed_dictionaries({"column": NAMES, "in": st.lists(VALUES, max_size=3)}),
    st.fixed_dictionaries({"column": st.just("ward"), "in": st.lists(WARDS, min_size=1, max_size=3)}),
    *(st.fixed_dictionaries({"column": st.sampled_from(["age", "cost", "day"]), name: VALUES}) for name in ("at_least", "above", "at_most", "below")),
    st.fixed_dictionaries({"column": NAMES, "missing": st.booleans()}),
)  # fmt: skip
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.fixed_dictionaries({"all": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"any": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"not": inner}),
    ),
    max_leaves=4,
)
REST = st.fixed_dictionaries(
    {"version": st.just(1), "epsilon": st.sampled_from([1e-9, 0.1, 1.0, 2.0, 2.0, 5.0, -1])},
    optional={
        "delta": st.sampled_from([0.0, 1e-7, 1e-6, 1e-3]),
        "where": CONDITIONS,
        "join": st.just(["patients"]),
        "contribution": st.fixed_dictionaries(
            {}, optional={"rows": st.integers(0, 3), "groups": st.integers(1, 2)}
        ),
    },
)
TABLE_QUESTIONS = merge(
    REST, st.fixed_dictionaries({"statistics": st.lists(STATISTICS, min_size=1, max_size=3)})
)
ROW_QUESTIONS = merge(
    st.just({"version": 1, "epsilon": 2.0, "delta": 1e-6}),
    st.one_of(
        st.fixed_dictionaries({"synthetic": st.just({"columns": ["ward", "age"], "bins": 3})}),
        st.fixed_dictionaries({"model": st.just({"estimator": "ridge", "features": ["ward", "urgent"], "target": "age", "population": 40})}),
    ),
    optional(where=LEAVES),
)  # fmt: skip
SQL_CONDITIONS = st.recursive(
    st.one_of(
        st.tuples(st.sampled_from(["age", "cost", "ward", "urgent", "day", "secret"]), st.sampled_from(["=", "<", ">=", "<>", "IN", "LIKE"]), st.sampled_from(["3", "-1.5", "'surgery'", "TRUE", "DATE '2024-02-01'", "(1, 2)", "NULL", "1e999"])).map(" ".join),
        st.sampled_from(["age IS NULL", "urgent IS NOT TRUE", "ward IS NOT NULL", "age BETWEEN 1 AND 50", "urgent"]),
    ),
    lambda inner: st.one_of(st.tuples(inner, st.sampled_from([" AND ", " OR "]), inner).map("".join), inner.map(lambda one: f"NOT ({one})")),
    max_leaves=4,
)  # fmt: skip
SQL = st.tuples(
    st.lists(st.sampled_from(["count(*)", "avg(age)", "sum(age) AS s", "median(age)", "var_pop(age)", "ward", "max(age)", "count(DISTINCT age)", "sum(cost)", "histogram(ward)"]), min_size=1, max_size=3).map(", ".join),
    st.sampled_from(["visits", "visits v", "visits JOIN patients ON visits.patient = patients.id", "rows"]),
    st.one_of(st.just(""), SQL_CONDITIONS.map(lambda one: f" WHERE {one}")),
    st.sampled_from(["", "", " GROUP BY ward", " GROUP BY 1", " ORDER BY 1"]),
).map(lambda parts: f"SELECT {parts[0]} FROM {parts[1]}{parts[2]}{parts[3]}")  # fmt: skip
SQL_QUESTIONS = merge(st.just({"version": 1, "epsilon": 1.0}), st.fixed_dictionaries({"sql": SQL}))
