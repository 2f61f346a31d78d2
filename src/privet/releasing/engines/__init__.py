"""Engines: bounded sums of whole numbers over a table.

``aggregates`` says what a plan asks of an engine, and ``engine`` what an engine must do. ``columns`` and
``rows`` bring values into the one form that all engines read. ``choice`` chooses the engine for a table:
``polars_engine`` works in memory (over ``packing``), ``duckdb_engine`` on files of any size, ``spark_engine``
on a cluster (``row_maker`` makes rows in its workers), and ``postgres_engine`` on a table of a PostgreSQL
server: ``postgres_queries`` are its queries, over ``postgres_types`` and ``postgres_values``.

A new engine is a module here and one line in ``choice``. It must give the same sums as the others.
"""
