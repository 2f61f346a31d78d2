"""The tests themselves run in the background too: ``nohup make test &`` makes every program ignore Ctrl-C."""

import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
IN_THE_BACKGROUND = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def test_tests_of_ctrl_c_work_where_it_was_ignored(tmp_path):
    check = tmp_path / "test_it.py"
    check.write_text(
        "import os, signal, subprocess, sys, pytest\n"
        "def test_here():\n"
        "    with pytest.raises(KeyboardInterrupt):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "def test_in_a_child():\n"
        "    program = 'import os, signal; os.kill(os.getpid(), signal.SIGINT)'\n"
        "    ended = subprocess.run([sys.executable, '-c', program], stderr=subprocess.DEVNULL)\n"
        "    assert ended.returncode == -signal.SIGINT\n"
    )
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text(encoding="utf-8"))
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", str(check)]
    ended = subprocess.run(
        [sys.executable, "-c", IN_THE_BACKGROUND, *command], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout
    assert "2 passed" in ended.stdout


def test_nothing_of_it_changes_the_handler_of_a_test_run_in_the_foreground():
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
