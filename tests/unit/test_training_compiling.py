"""What people see while loops are compiled."""

import io
from types import SimpleNamespace

import pytest

pytest.importorskip("numba", reason="numba is not installed")
compiling = pytest.importorskip("privet.training.compilation")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def event(module):
    function = SimpleNamespace(py_func=SimpleNamespace(__module__=module))
    return SimpleNamespace(data={"dispatcher": function})


def test_a_note_while_something_is_compiled_and_none_afterwards():
    terminal = Terminal()
    note, ours = compiling.CompilationNotice(terminal), event("privet.training.loops")
    note.on_start(ours)
    note.on_start(ours)  # a function that the first one calls
    note.on_end(ours)
    said = terminal.getvalue()
    assert said.count("compiling") == 1
    assert not said.endswith("\033[K")
    note.on_end(ours)
    assert terminal.getvalue().endswith("\r\033[K")


@pytest.mark.parametrize(("stream", "module"), [(io.StringIO(), "privet.x"), (Terminal(), "elsewhere")])
def test_silent_off_a_terminal_and_for_the_functions_of_others(stream, module):
    note = compiling.CompilationNotice(stream)
    note.on_start(event(module))
    note.on_end(event(module))
    assert stream.getvalue() == ""
