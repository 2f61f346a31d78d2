"""Docstrings as Markdown: doctests become fenced blocks, so that `>>>` is not taken for a quotation."""

from griffe import Extension, Object

__all__ = ["Fences"]


class Fences(Extension):
    """Puts a fence around every doctest of every docstring."""

    def on_object(self, *, obj: Object, **_: object) -> None:
        """Rewrite the docstring of one module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """The same text, with each run of lines that starts with `>>>` up to an empty line in a fence.

    Examples and their answers stay together, since a doctest ends where a blank line is.
    """
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        stripped = line.strip()
        if not inside and stripped.startswith(">>>"):
            lines += ["", "```pycon"]
            inside = True
        elif inside and not stripped:
            lines.append("```")
            inside = False
        lines.append(stripped_of(line) if inside else line)
    if inside:
        lines.append("```")
    return "\n".join(lines)


def stripped_of(line: str) -> str:
    """A line of an example, without the indentation of a section around it."""
    return line.strip() if line.strip().startswith((">>>", "...")) else line
