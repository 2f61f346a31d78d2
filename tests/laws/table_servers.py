"""A throw-away PostgreSQL server and a local Spark session, for tests and measurements. Where one is missing, the reason is said."""

import glob
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import polars as pl


class Missing(Exception):
    """What a server needs is not on this machine."""


def _program(name):
    found = shutil.which(name) or next(iter(sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"))), None)  # noqa: PTH207
    if found is None:
        raise Missing(f"PostgreSQL's {name} is not installed")
    return found


@contextmanager
def open_postgres(**settings):
    """The address of a new server that listens on a socket in a private folder. PostgreSQL refuses to run as root."""
    make, control = _program("initdb"), _program("pg_ctl")
    folder = Path(tempfile.mkdtemp(prefix="privet-postgres-"))
    user = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
    if user:
        shutil.chown(folder, "nobody", "nogroup")
    data, quiet = str(folder / "data"), {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    flags = " ".join(
        f"-c {name}={value}"
        for name, value in {
            "listen_addresses": "''",
            "unix_socket_directories": folder,
            "fsync": "off",
            **settings,
        }.items()
    )
    try:
        initial = [make, "-D", data, "--no-sync", "--no-locale", "-E", "UTF8", "-U", "privet", "--auth=trust"]
        started = [control, "-D", data, "-o", flags, "-l", str(folder / "log"), "-w", "start"]
        try:
            subprocess.run(initial, check=True, cwd=folder, **user, **quiet)
            subprocess.run(started, check=True, cwd=folder, **user, **quiet)
        except (subprocess.CalledProcessError, OSError, KeyError) as failed:
            raise Missing("a PostgreSQL server could not be started here") from failed
        try:
            yield f"postgresql://privet@/postgres?host={folder}"
        finally:
            stop = [control, "-D", data, "-m", "immediate", "stop"]
            subprocess.run(stop, check=False, cwd=folder, **user, **quiet)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def open_spark(threads=1, memory="1g", *, short=True):
    """A local session. Its workers are this Python with this Privet."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise Missing("Spark needs Java, and it is not installed")
    import privet

    source = str(Path(privet.__file__).parents[1])
    paths = [source, *filter(None, [os.environ.get("PYTHONPATH")])]
    wanted = {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(paths),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "POLARS_MAX_THREADS": "1",
    }
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        from pyspark.sql import SparkSession

        settings = {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": memory,
            # A short program: compile fast rather than well.
            "spark.driver.extraJavaOptions": "-XX:+UseSerialGC"
            + (" -XX:TieredStopAtLevel=1" if short else ""),
            "spark.log.level": "OFF",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": str(threads),
            "spark.sql.timestampType": "TIMESTAMP_NTZ",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        builder = SparkSession.builder.master(f"local[{threads}]").appName("privet")
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        try:
            yield session
        finally:
            session.stop()
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def storable(frame):
    """The frame in types that databases have: whole numbers with a sign, microseconds, text without categories."""
    casts = {}
    for name, kind in frame.schema.items():
        if kind == pl.UInt64:
            casts[name] = pl.Decimal(20, 0)
        elif kind == pl.Categorical:
            casts[name] = pl.String
        elif isinstance(kind, pl.Datetime):
            casts[name] = pl.Datetime("us", kind.time_zone)
    return frame.cast(casts)


_TYPES = {
    pl.Int64: "int8",
    pl.Int8: "int2",
    pl.Float64: "float8",
    pl.Float32: "float4",
    pl.Boolean: "bool",
    pl.String: "text",
    pl.Date: "date",
    pl.Time: "time",
}


def postgres_type(kind):
    if isinstance(kind, pl.Datetime):
        return "timestamptz" if kind.time_zone else "timestamp"
    if isinstance(kind, pl.Decimal):
        return f"numeric({kind.precision}, {kind.scale})"
    return _TYPES[type(kind)]


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def write_postgres(connection, frame, table, types=None):
    """The frame as a table of the database, whatever was there before."""
    columns = [
        f"{quoted(name)} {(types or {}).get(name, postgres_type(kind))}"
        for name, kind in frame.schema.items()
    ]
    connection.execute(f"DROP TABLE IF EXISTS {quoted(table)}".encode())
    connection.execute(f"CREATE UNLOGGED TABLE {quoted(table)} ({', '.join(columns)})".encode())
    with connection.cursor() as cursor, cursor.copy(f"COPY {quoted(table)} FROM STDIN".encode()) as copy:
        for row in frame.rows():
            copy.write_row(row)
    connection.commit()
