"""Run the tutorials and store what they print: ``python docs/notebooks.py docs/tutorials/*.ipynb``.

A notebook is read and written as JSON (nbformat 4), so neither Jupyter nor a kernel is needed. All code cells of a notebook
run as one program. The tests run them again and compare, except for cells with the tag ``noise``. The site shows a notebook
where a page has the line ``<!-- notebook: name.ipynb -->``.
"""

import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

__all__ = ["NOISE", "execute", "markdown_of", "output_of"]

NOISE = "noise"


def execute(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with fresh outputs."""
    names: dict[str, object] = {"__name__": "__main__"}
    cells, count = [], 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile("".join(cell["source"]), f"cell {count}", "exec"), names)
            text = printed.getvalue().splitlines(keepends=True)
            output = {"name": "stdout", "output_type": "stream", "text": text}
            cells.append({**cell, "execution_count": count, "outputs": [output] if text else []})
        else:
            cells.append(cell)
    return {**notebook, "cells": cells}


def output_of(cell: dict[str, Any]) -> str:
    """What a code cell printed."""
    return "".join(line for output in cell["outputs"] for line in output["text"])


def markdown_of(notebook: dict[str, Any]) -> str:
    """The notebook as a page: text as it is, programs and outputs in fences."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```{{ .python }}\n{source}\n```")
        if output_of(cell):
            parts.append(f"```text\n{output_of(cell).rstrip()}\n```")
    return "\n\n".join(parts)


def _rewrite(path: Path) -> None:
    fresh = execute(json.loads(path.read_text(encoding="utf-8")))
    path.write_text(json.dumps(fresh, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    paths = [Path(name).resolve() for name in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # what a notebook writes is not kept
        for path in paths:
            _rewrite(path)
