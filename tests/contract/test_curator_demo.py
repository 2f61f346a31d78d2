"""``privet curator demo`` as a newcomer meets it: one command, a page, an answer; then both processes are killed."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing
from html import unescape
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the curator needs the extra curator")
pytest.importorskip("alembic", reason="the curator needs the extra curator")
import httpx

from privet.cli import main
from privet.curator import Client
from privet.errors import BudgetExceeded

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the processes are found in /proc"
)
NEWCOMER = 180.0  # seconds from the command to the first answer
COUNT = {"statistics": [{"kind": "count"}], "epsilon": 0.1}


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


class Demo:
    """The command, running."""

    def __init__(self, folder):
        self.folder, self.port, self.began = folder, free_port(), time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "privet", "curator", "demo", "--port", str(self.port), "--folder", str(folder)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        self.said = ""
        while "to stop" not in self.said:
            line = self.process.stdout.readline()
            assert line, self.said
            self.said += line
        self.ready = time.monotonic() - self.began
        self.address = f"http://127.0.0.1:{self.port}"
        self.passwords = dict(json.loads((folder / "ledger" / "passwords.json").read_text()))

    def children(self, module):
        """Processes of a module, below this one."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().split(b"\0")
            except OSError:
                continue
            if module.encode() in words and str(self.folder / "steward.toml").encode() in words:
                found.append(int(path.parent.name))
        return found

    def kill(self, module):
        (pid,) = self.children(module)
        os.kill(pid, signal.SIGKILL)
        return pid

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(30)


@pytest.fixture
def demo(tmp_path):
    running = Demo(tmp_path / "demo")
    yield running
    if running.process.poll() is None:
        running.stop()
    running.process.stdout.close()


def token(page):
    return unescape(re.search(r'name="csrf" value="([^"]*)"', page.text)[1])


def log_in(demo, name):
    http = httpx.Client(base_url=demo.address, follow_redirects=True, timeout=60)
    data = {"name": name, "password": demo.passwords[name], "csrf": token(http.get("/login"))}
    assert http.post("/login", data=data).url.path in ("/", "/steward")
    return http


@pytest.fixture
def client(demo):
    with closing(log_in(demo, "ann")) as http:
        page = http.post(
            "/account/keys", data={"csrf": token(http.get("/account")), "label": "test", "days": "1"}
        )
        key = re.search(r"privet_[0-9a-f]{12}_[\w-]{43}", page.text)[0]
    with Client(demo.address, key=key) as made:
        yield made


def check_that_a_newcomer_has_an_answer_within_three_minutes(demo):
    assert f"http://127.0.0.1:{demo.port}" in demo.said
    assert all(password in demo.said for password in demo.passwords.values())
    with closing(log_in(demo, "ann")) as http:
        assert demo.passwords["ann"] in http.get("/login").text
        form = {
            "csrf": token(http.get("/datasets/visits")),
            "mode": "form",
            "kind0": "mean",
            "column0": "days",
            "by0": "ward",
        }
        quote = http.post(
            "/datasets/visits", data=form | {"price": "epsilon", "epsilon": "0.2", "action": "quote"}
        )
        hidden = dict(re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', quote.text))
        answer = http.post(
            "/datasets/visits/ask", data={name: unescape(value) for name, value in hidden.items()}
        )
    assert "Mean of days by ward".lower() in unescape(answer.text).lower()
    for ward in ("surgery", "medicine", "children", "maternity", "heart"):
        assert f">{ward}<" in answer.text
    assert time.monotonic() - demo.began < NEWCOMER


def check_that_the_client_asks_the_same_curator_in_sql_too(client):
    count = client.ask(COUNT)
    assert count.status == "answered"
    assert 10_000 < count["count"].value < 100_000
    same = client.ask("SELECT COUNT(*) AS visits FROM visits", epsilon=0.1)
    assert same.is_stored
    assert same["visits"].value == count["count"].value


def check_that_one_dies_and_the_other_goes_on(demo, client):
    before = client.datasets()[0].remaining
    dead = demo.kill("privet.curator.worker")
    asked = client.ask(COUNT | {"epsilon": 0.11})
    assert asked.status in ("answered", "failed")
    assert client.datasets()[0].remaining == pytest.approx(before - 0.11, abs=1e-6)
    assert dead not in demo.children("privet.curator.worker")
    demo.kill("privet.curator.serving")
    again = client.ask(COUNT | {"epsilon": 0.12}, dataset="visits")
    assert again.status == "answered"
    assert client.ask(COUNT)["count"] == client.ask(COUNT)["count"]
    assert client.datasets()[0].remaining == pytest.approx(before - 0.23, abs=1e-6)


def check_that_the_cap_holds(client):
    with pytest.raises(BudgetExceeded):
        for step in range(4):
            client.ask(COUNT | {"epsilon": 0.9 - step / 100})


def check_that_auditors_verify_and_export(demo, capsys, tmp_path):
    steward = str(demo.folder / "steward.toml")
    assert main(["curator", "verify", steward, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["chain_ok"]
    assert found["charges"] >= 4
    assert main(["curator", "export", steward, "visits", "--out", str(tmp_path / "evidence.json")]) == 0
    evidence = json.loads((tmp_path / "evidence.json").read_text())
    assert evidence["certified"]["reached"] <= 3.0 + 1e-9
    assert main(["curator", "export", steward, "nothing"]) == 2
    with closing(log_in(demo, "otto")) as http:
        page = http.get("/steward/datasets/visits")
        assert "All answers so far together" in page.text
        verified = http.post("/steward/datasets/visits/verify", data={"csrf": token(page)})
        assert "The chain and all spends agree" in verified.text


def check_that_a_new_analyst_gets_a_key_and_a_grant(demo, capsys):
    steward = str(demo.folder / "steward.toml")
    capsys.readouterr()
    assert main(["curator", "add-analyst", steward, "eve", "--group", "guests", "--key", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    with Client(demo.address, key=made["key"]) as client:
        assert client.datasets() == ()
        assert (
            main(["curator", "grant", steward, "eve", "visits", "--epsilon", "0.05", "--delta", "1e-9"]) == 0
        )
        assert client.datasets()[0].remaining <= 0.05
        assert client.ask(COUNT).is_stored
        with pytest.raises(BudgetExceeded):
            client.ask(COUNT | {"epsilon": 0.06})
    assert main(["curator", "add-analyst", steward, "eve"]) == 2
    assert main(["curator", "grant", steward, "nobody", "visits"]) == 2


def check_that_nothing_of_the_data_is_outside_of_its_folder(demo):
    """The gateway's files have no patient of the data, and only their owner may read them."""
    import polars as pl

    patients = pl.read_parquet(demo.folder / "data" / "visits.parquet")["cost"].head(50)
    content = b"".join(path.read_bytes() for path in (demo.folder / "ledger").iterdir())
    assert not any(str(value).encode() in content for value in patients)
    for path in (demo.folder / "ledger").iterdir():
        assert path.stat().st_mode & 0o077 == 0, path


def check_that_it_ends_with_ctrl_c_and_leaves_nobody_behind(demo):
    assert demo.stop() == 0
    assert demo.children("privet.curator.worker") == []
    assert demo.children("privet.curator.serving") == []


def test_the_demonstration(demo, client, capsys, tmp_path):
    """One test, because each step goes on from the one before, and a demonstration takes seconds to start."""
    check_that_a_newcomer_has_an_answer_within_three_minutes(demo)
    check_that_the_client_asks_the_same_curator_in_sql_too(client)
    check_that_one_dies_and_the_other_goes_on(demo, client)
    check_that_the_cap_holds(client)
    check_that_auditors_verify_and_export(demo, capsys, tmp_path)
    check_that_a_new_analyst_gets_a_key_and_a_grant(demo, capsys)
    check_that_nothing_of_the_data_is_outside_of_its_folder(demo)
    check_that_it_ends_with_ctrl_c_and_leaves_nobody_behind(demo)
