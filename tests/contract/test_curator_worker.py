"""The worker's process: answers over its socket, can reach no network and write no file, and survives what others do."""

import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("polars")

from tests.unit.curator_tables import STEWARD, write_clinic

from privet.curator.questions.planner import MetadataPlanner
from privet.curator.worker.answer_failed import AnswerFailed
from privet.curator.worker.frames import LONGEST, receive
from privet.curator.worker.process_worker import ProcessWorker, WorkerUnavailable
from privet.events import DiscreteLaplace
from privet.releasing import answer_from_plain

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="seccomp and Landlock are of Linux")
COUNT = {"version": 1, "statistics": [{"kind": "count"}], "epsilon": 1.0}


@pytest.fixture(scope="module")
def steward(tmp_path_factory):
    return write_clinic(tmp_path_factory.mktemp("clinic"))


@pytest.fixture(scope="module")
def worker(steward):
    with ProcessWorker(steward) as worker:
        yield worker


@pytest.fixture(scope="module")
def planner(steward):
    return MetadataPlanner.of_file(steward)


def test_an_answer_has_what_was_planned(worker, planner):
    planned = planner.plan(
        "visits",
        {
            "version": 1,
            "statistics": [{"kind": "count"}, {"kind": "mean", "column": "age", "by": ["ward"]}],
            "epsilon": 1.0,
        },
    )
    found = worker.answer("visits", planned, request="first")["answers"]
    answers = [
        answer_from_plain(one["label"], {k: v for k, v in one.items() if k != "label"}) for one in found
    ]
    assert [(a.label, a.event) for a in answers] == [(e.label, e.event) for e in planned.entries]
    assert [key for key, _ in answers[[a.label for a in answers].index("mean of age by ward")].value] == [
        "children",
        "medicine",
        "surgery",
    ]


def test_sql_synthetic_data_and_models_come_over_the_same_socket(worker, planner):
    sql = {
        "version": 1,
        "sql": "SELECT sex, count(*) FROM visits JOIN patients ON visits.patient = patients.id GROUP BY sex",
        "epsilon": 1.0,
    }
    assert (
        len(worker.answer("visits", planner.plan("visits", sql), request="sql")["answers"][0]["value"]) == 2
    )
    synthetic = {
        "version": 1,
        "synthetic": {"columns": ["ward", "age"], "bins": 4},
        "epsilon": 1.0,
        "delta": 1e-6,
    }
    made = worker.answer("visits", planner.plan("visits", synthetic), request="synthetic")["synthetic"]
    assert {name: len(values) for name, values in made["columns"].items()} == {"age": 20, "ward": 20}
    model = {
        "estimator": "logistic_regression",
        "features": ["age", "ward"],
        "target": "urgent",
        "population": 80,
    }
    fitted = worker.answer(
        "visits",
        planner.plan("visits", {"version": 1, "model": model, "epsilon": 2.0, "delta": 1e-6}),
        request="model",
    )["model"]
    assert len(fitted["weights"][0]) == 4


def test_a_charge_has_one_answer(worker, planner):
    planned = planner.plan("visits", COUNT)
    worker.answer("visits", planned, request="once")
    with pytest.raises(AnswerFailed):
        worker.answer("visits", planned, request="once")


def test_a_gateway_cannot_ask_for_less_noise_than_it_says(worker, planner):
    planned = planner.plan("visits", COUNT)
    for changed in (
        {**planned.canonical, "unit": None},
        {**planned.canonical, "epsilon": 1000.0},
        {**planned.canonical, "contribution": {"rows": 9, "groups": 9}},
        {**planned.canonical, "statistics": [{"kind": "max", "column": "age"}]},
        {**planned.canonical, "path": "/etc/passwd"},
        {},
    ):
        with pytest.raises(AnswerFailed) as failed:
            worker.answer("visits", replace(planned, canonical=changed), request=f"changed {changed}")
        assert failed.value.__cause__ is failed.value.__context__ is None


def test_the_worker_is_killed_and_comes_back(worker, planner):
    planned = planner.plan("visits", COUNT)
    os.kill(worker.pid(), 9)
    for number in range(2):  # the first may meet the dying process
        try:
            worker.answer("visits", planned, request=f"after the kill {number}")
            return
        except AnswerFailed:
            time.sleep(0.1)
    pytest.fail("no answer after a kill")


@pytest.mark.slow
def test_the_worker_outlives_a_gateway(tmp_path):
    steward, path = write_clinic(tmp_path), tmp_path / "w.sock"
    first = ProcessWorker(steward, socket_path=path)
    pid = first.pid()
    first._lifeline.close()  # as a gateway that was killed: nothing of it is ended in order
    second = ProcessWorker(steward, socket_path=path)
    assert second.pid() == pid
    second.answer("visits", MetadataPlanner.of_file(steward).plan("visits", COUNT), request="x")
    first._lifeline = None
    first.close()
    with pytest.raises(WorkerUnavailable):
        ProcessWorker(steward, socket_path=path, start=False).fingerprint("visits")


def test_garbage_ends_its_own_connection_only(worker, planner):
    pid = worker.pid()
    for garbage in (
        b"",
        b"x",
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">I", LONGEST + 1),
        struct.pack(">I", 3) + b"{x}",
        struct.pack(">I", 9) + b"{}",
    ):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(worker._path))
            connection.sendall(garbage)
            connection.shutdown(socket.SHUT_WR)
            assert receive(connection) is None
    for message in (
        [],
        {},
        {"ask": "answer"},
        {"ask": "answer", "dataset": 1, "question": {}, "request": "a"},
        {"ask": "shell"},
        "x" * 10**5,
    ):
        assert worker._ask(message, 10) == {"ok": False}
    assert worker.pid() == pid


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [("ward = {", "wards = {", "'wards'"), ('path = "visits.parquet"', 'path = "nothing.parquet"', "path of a file"), ('day = { type = "date" }', 'day = { type = "number" }', "dates or times")],
)  # fmt: skip
def test_a_table_unlike_its_metadata_is_said_at_the_start(tmp_path, old, new, words):
    steward = write_clinic(tmp_path)
    steward.write_text(STEWARD.replace(old, new, 1))
    with ProcessWorker(steward) as worker, pytest.raises(WorkerUnavailable, match=words):
        worker.pid()


@pytest.mark.slow
def test_a_question_has_a_time_limit(tmp_path):
    steward = write_clinic(tmp_path)
    steward.write_text(STEWARD.replace("statistics = 5", "statistics = 5, seconds = 1e-6"))
    with ProcessWorker(steward) as worker, pytest.raises(AnswerFailed):
        worker.answer("visits", MetadataPlanner.of_file(steward).plan("visits", COUNT), request="x")


@pytest.mark.slow
def test_answers_and_failures_and_crashes_come_at_one_time(tmp_path):
    steward = write_clinic(tmp_path)
    steward.write_text(STEWARD.replace("groups = 2", "groups = 2\nanswer_after = 0.5", 1))
    planned = MetadataPlanner.of_file(steward).plan("visits", COUNT)
    times = []
    with ProcessWorker(steward) as worker:
        pid = worker.pid()
        for number, wrong in enumerate((planned, replace(planned, canonical={}), planned)):
            if number == 2:
                threading.Timer(0.1, os.kill, (pid, 9)).start()
            began = time.monotonic()
            try:
                worker.answer("visits", wrong, request=f"{number}")
                failed = False
            except AnswerFailed:
                failed = True
            times.append(time.monotonic() - began)
            assert failed == (number > 0)
    assert min(times) >= 0.6
    assert max(times) - min(times) < 0.4


@pytest.mark.slow
def test_fingerprints_tell_nothing_without_the_worker_s_secret(tmp_path):
    found = []
    for name in ("a", "b"):
        steward = write_clinic(tmp_path / name)
        with ProcessWorker(steward) as worker:
            found.append(worker.fingerprint("visits"))
            assert worker.fingerprint("visits") == found[-1]
            if name == "b":
                data = tmp_path / "b" / "visits.parquet"
                data.write_bytes(data.read_bytes() + b" ")
                assert worker.fingerprint("visits") != found[-1]
        assert (tmp_path / name / "steward.toml.salt").stat().st_mode & 0o777 == 0o600
    assert found[0] != found[1]  # the same data


ESCAPES = """
import os, socket, sys
from pathlib import Path
from privet.curator.worker.confinement import confine
folder = Path(sys.argv[1])
(folder / "scratch").mkdir()
held = confine(network=False, writable=[folder / "scratch"])
refused = []
for family in (socket.AF_INET, socket.AF_INET6):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        try:
            socket.socket(family, kind)
        except PermissionError:
            refused.append("socket")
for name, act in (
    ("write", lambda: (folder / "new").write_text("x")),
    ("change", lambda: (folder / "data").write_text("x")),
    ("truncate", lambda: os.truncate(folder / "data", 0)),
    ("remove", lambda: (folder / "data").unlink()),
    ("rename", lambda: (folder / "data").rename(folder / "scratch" / "data")),
):
    try:
        act()
    except OSError:
        refused.append(name)
(folder / "scratch" / "x").write_text("x")
socket.socket(socket.AF_UNIX)
print(held.network_closed, held.writes_refused, held.memory_hidden, (folder / "data").read_text(), refused)
"""


@LINUX
def test_the_kernel_refuses_networks_and_writes(tmp_path):
    (tmp_path / "data").write_text("rows")
    done = subprocess.run(
        [sys.executable, "-c", ESCAPES, str(tmp_path)], capture_output=True, text=True, check=True
    )
    words = done.stdout.strip()
    if not words.startswith("True True"):
        pytest.skip(f"this kernel has no seccomp or no Landlock: {words}")
    assert words == "True True True rows " + str(
        ["socket"] * 4 + ["write", "change", "truncate", "remove", "rename"]
    )


@LINUX
def test_the_worker_says_how_it_is_confined(worker):
    held = worker.confinement()
    status = Path(f"/proc/{worker.pid()}/status").read_text()
    if held.network_closed:
        assert "Seccomp:\t2" in status
        assert "NoNewPrivs:\t1" in status


@LINUX
def test_a_worker_of_a_remote_server_keeps_its_network():
    from privet.curator.questions.metadata import StewardFile
    from privet.curator.worker.process import _needs_network
    from privet.releasing import PostgresTable

    for address, local in (
        ("postgresql:///clinic", True),
        ("postgresql:///clinic?host=/run/postgresql", True),
        ("postgresql://%2Frun%2Fpostgresql/clinic", True),
        ("postgresql://db.example/clinic", False),
        ("postgresql://ann:pw@10.0.0.1:5432/clinic", False),
        ("dbname=clinic", True),
        ("dbname=clinic host=localhost", False),
        ("service=clinic", False),
    ):
        assert PostgresTable(address, "t").is_local is local, address
    assert not _needs_network(StewardFile({}))


QUOTE = """
import sys
from pathlib import Path
from privet.curator.questions.planner import MetadataPlanner
planner = MetadataPlanner.of_file(Path(sys.argv[1]))
for question in (
    {"version": 1, "statistics": [{"kind": "count", "by": ["ward"]}], "epsilon": 1.0},
    {"version": 1, "sql": "SELECT avg(age) FROM visits WHERE urgent", "epsilon": 1.0},
):
    planner.plan("visits", question)
planner.describe("visits")
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_quote_opens_no_data_file(steward, tmp_path):
    log = tmp_path / "calls"
    command = [
        "strace",
        "-f",
        "-qq",
        "-e",
        "trace=%file,connect,socket",
        "-o",
        str(log),
        sys.executable,
        "-c",
        QUOTE,
        str(steward),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if "ptrace" in done.stderr:
        pytest.skip("strace may not trace here")
    assert done.returncode == 0, done.stderr
    calls = log.read_text(errors="replace")
    # Each line is "process call(arguments) = result". The reader of the steward's file asks whether paths are there.
    opened = [line for line in calls.splitlines() if line.split("(")[0].split()[-1].startswith("open")]
    assert any("steward.toml" in line for line in opened)
    for name in ("visits.parquet", "patients.parquet", "rows.csv"):
        assert not any(name in line for line in opened)
    assert "AF_INET" not in calls


@pytest.mark.slow
def test_the_line_at_the_start_is_all_that_it_prints(tmp_path):
    steward = write_clinic(tmp_path)
    command = [
        sys.executable,
        "-m",
        "privet.curator.worker",
        "--steward",
        str(steward),
        "--socket",
        str(tmp_path / "s"),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert json.loads(process.stdout.readline())["ready"] is True
        worker = ProcessWorker(steward, socket_path=tmp_path / "s", start=False)
        planned = MetadataPlanner.of_file(steward).plan("visits", COUNT)
        worker.answer("visits", planned, request="x")
        (tmp_path / "visits.parquet").write_bytes(b"PAR1 row 17: Alice PAR1")
        with pytest.raises(AnswerFailed):
            worker.answer("visits", planned, request="y")
    finally:
        process.terminate()
        rest = process.communicate(timeout=20)
    assert rest == ("", "")


def test_events_of_a_plan_are_discrete(planner):
    """Noise of floats would show in its last bits; see tests of the samplers."""
    assert isinstance(planner.plan("visits", COUNT).entries[0].event, DiscreteLaplace)
