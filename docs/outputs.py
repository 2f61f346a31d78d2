"""Fill in what the programs and commands on a page print: ``python docs/outputs.py docs/choosing.md
docs/command-line.md``.

Python blocks run as one program, and the text block that follows one shows its output. A console block holds
a command and what it prints. The tests hold the pages against the same.
"""

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from pathlib import Path

__all__ = ["filled"]

_FENCE = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def filled(text: str) -> str:
    """The page with fresh outputs."""
    names: dict[str, object] = {"__name__": "__main__"}
    printed: str | None = None

    def fresh(found: re.Match[str]) -> str:
        nonlocal printed
        language, rest, body = found.groups()
        if language == "python":
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                exec(compile(body, "page", "exec"), names)
            printed = said.getvalue() or None
            return found[0]
        if language == "text" and printed is not None:
            body = printed
        elif language == "console":
            command = body.partition("\n")[0]
            body = f"{command}\n{_answer(command.removeprefix('$ '))}"
        printed = None
        return f"```{language}{rest}\n{body}```"

    return _FENCE.sub(fresh, text)


def _answer(command: str) -> str:
    from privet.cli import main

    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        main(shlex.split(command)[1:])
    return said.getvalue().rstrip() + "\n"


if __name__ == "__main__":
    pages = [Path(name).resolve() for name in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # what a page writes is not kept
        for page in pages:
            page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
