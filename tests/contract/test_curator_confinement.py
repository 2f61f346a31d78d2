"""The gateway gives up the data: the kernel refuses it the files, and nothing else."""

import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("sqlalchemy", reason="the curator needs the extra curator")

PROGRAM = textwrap.dedent(
    """
    import pathlib, subprocess, sys, threading
    from privet.curator.serving.confined_gateway import refuse_files
    folder = pathlib.Path(sys.argv[1])
    done = refuse_files([folder / "data" / "visits.parquet"], writable=[folder / "ledger"])
    if not done:
        print("no Landlock"); sys.exit()
    def read(path):
        try:
            return path.read_text()
        except PermissionError:
            return "refused"
    (folder / "ledger" / "new").write_text("later")
    found = []
    thread = threading.Thread(target=lambda: found.append(read(folder / "data" / "visits.parquet"))); thread.start(); thread.join()
    child = subprocess.run([sys.executable, "-c", f"open({str(folder / 'data' / 'visits.parquet')!r})"], capture_output=True)
    print(read(folder / "data" / "visits.parquet"), found[0], read(folder / "steward.toml"), read(folder / "ledger" / "old"),
          read(folder / "ledger" / "new"), child.returncode != 0)
    """
)


@pytest.fixture
def folder(tmp_path):
    for name in ("data", "ledger"):
        (tmp_path / name).mkdir()
    (tmp_path / "data" / "visits.parquet").write_text("secret")
    (tmp_path / "ledger" / "old").write_text("old")
    (tmp_path / "steward.toml").write_text("public")
    return tmp_path


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Landlock is Linux only")
def test_the_kernel_refuses_the_data_to_threads_and_children_too(folder):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder)], capture_output=True, text=True, check=True
    )
    if "no Landlock" in done.stdout:
        pytest.skip("this kernel has no Landlock")
    assert done.stdout.split() == ["refused", "refused", "public", "old", "later", "True"]


def test_data_beside_the_ledger_is_not_called_refused(tmp_path):
    from privet.curator.serving.confined_gateway import refuse_files

    (tmp_path / "visits.parquet").write_text("secret")
    assert not refuse_files([tmp_path / "visits.parquet"], writable=[tmp_path])
    assert (tmp_path / "visits.parquet").read_text() == "secret"
