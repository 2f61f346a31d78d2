"""The same app file in one process, on Ray, and over TLS on loopback: the same weights, bit for bit."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parents[2] / "examples" / "federated"
SOURCES = Path(__file__).parents[2] / "src"
PROGRAMS = Path(sys.executable).parent
CLIENTS, PATIENCE = 2, 420


def environment(folder, **more):
    return os.environ | {
        "FLWR_HOME": str(folder / "flower"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(SOURCES),
        "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}",
        "RESULT": str(folder / "model.pt"),
        "CLIENTS": str(CLIENTS),
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        **more,
    }


def run_app(folder, *arguments, **more):
    """Run the app file; its weights, and what it printed."""
    folder.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, FOLDER / "digits_app.py", *arguments],
        env=environment(folder, **more),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return torch.load(folder / "model.pt", weights_only=True), done.stdout


def are_same(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def test_the_example_runs_in_one_process(tmp_path):
    _, said = run_app(tmp_path / "open")
    assert "2 rounds, 2 clients in the last one" in said
    assert "no guarantee" in said


@pytest.mark.slow
def test_the_example_runs_with_noise(tmp_path):
    _, said = run_app(tmp_path, CLIENTS="60", ROUNDS="3", PRIVATE="1")
    epsilon = float(said.split("epsilon ")[1].split()[0])
    assert 7.9 < epsilon <= 8


@pytest.mark.slow
def test_ray_gives_the_same_bits(tmp_path):
    pytest.importorskip("ray", reason="Flower's simulation needs ray")
    expected, _ = run_app(tmp_path / "one")
    simulated, _ = run_app(tmp_path / "ray", "--ray")
    assert are_same(simulated, expected)


@contextmanager
def started(folder, name, *command):
    """A program in a session of its own, which is ended with everything that it started."""
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            command, env=environment(folder), cwd=folder, stdout=log, stderr=log, start_new_session=True
        )
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_until(is_ready, what, folder):
    end = time.monotonic() + PATIENCE
    while not is_ready():
        logs = {path.name: path.read_text(errors="replace")[-2000:] for path in folder.glob("*.log")}
        assert time.monotonic() < end, f"{what} took too long: {logs}"
        time.sleep(0.5)


def is_listening(port):
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.slow
def test_a_server_and_clients_over_tls_give_the_same_bits(tmp_path):
    expected, _ = run_app(tmp_path / "one")
    made = tmp_path / "certificates"
    subprocess.run([sys.executable, FOLDER / "make_certificates.py", made], check=True)
    port = free_port()
    (tmp_path / "flower").mkdir()
    (tmp_path / "flower" / "config.toml").write_text(
        f'[superlink]\ndefault = "trial"\n\n[superlink.trial]\naddress = "127.0.0.1:{port}"\n'
        f'root-certificates = "{made / "ca.crt"}"\n'
    )
    link = (
        *("flower-superlink", "--ssl-ca-certfile", made / "ca.crt", "--ssl-certfile", made / "server.crt"),
        *(
            "--ssl-keyfile",
            made / "server.key",
            "--port",
            str(port),
            "--disable-runtime-dependency-installation",
        ),
    )
    with ExitStack() as stack:
        stack.enter_context(started(tmp_path, "server", *link))
        wait_until(lambda: is_listening(port), "the server", tmp_path)
        for number in range(CLIENTS):
            node = (
                *("flower-supernode", "--root-certificates", made / "ca.crt"),
                *("--superlink", f"127.0.0.1:{port}", "--port", str(free_port())),
                *("--node-config", f"partition-id={number} num-partitions={CLIENTS}"),
            )
            stack.enter_context(started(tmp_path, f"client{number}", *node))
        begun = subprocess.run(
            ["flwr", "run", FOLDER, "trial"],
            env=environment(tmp_path),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert begun.returncode == 0, begun.stdout + begun.stderr
        wait_until((tmp_path / "model.pt").exists, "the run", tmp_path)
        time.sleep(2)  # the file is written
        deployed = torch.load(tmp_path / "model.pt", weights_only=True)
    assert are_same(deployed, expected)
