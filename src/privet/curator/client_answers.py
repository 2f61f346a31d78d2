"""What the client gives back: datasets, quotes, and questions that were asked, readable in a notebook."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, final

from privet.errors import InvalidArgument, Unreadable
from privet.releasing.answers import Answer, answer_from_plain

__all__ = ["CuratorAnswers", "CuratorDataset", "QuestionQuote"]

Plain = Mapping[str, Any]


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class CuratorDataset:
    """A dataset: public metadata, and the caps that bind this account. ``plain`` has all of it."""

    plain: Plain

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.plain["name"])

    @property
    def description(self) -> str:
        """What it is."""
        return str(self.plain["description"])

    @property
    def metadata(self) -> Plain:
        """Columns with their bounds and keys, the unit, the contribution of a person."""
        metadata: Plain = self.plain["metadata"]
        return metadata

    @property
    def remaining(self) -> float:
        """The ε that is left under the tightest cap."""
        return min((_number(one["remaining"]) for one in self.plain["budgets"]), default=math.inf)

    def __repr__(self) -> str:
        columns = ", ".join(str(column["name"]) for column in self.metadata.get("columns", ()))
        return f"{self.name}: {self.description} Columns: {columns}. ε = {self.remaining:.3g} is left."


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class QuestionQuote:
    """What a question would cost. Nothing was spent for it. ``plain`` has all of it."""

    plain: Plain

    @property
    def epsilon(self) -> float:
        """What it would cost; 0 if the answer is known already."""
        return _number(self.plain["epsilon"])

    @property
    def delta(self) -> float:
        """What it would cost in δ."""
        return _number(self.plain["delta"])

    @property
    def is_stored(self) -> bool:
        """Whether the answer is known already, and free."""
        return bool(self.plain["stored"])

    @property
    def is_affordable(self) -> bool:
        """Whether all caps allow it."""
        return bool(self.plain["affordable"])

    @property
    def errors(self) -> Mapping[str, float]:
        """For each statistic, how far the noise may move it, at 95 %."""
        return {str(one["label"]): _number(one["error"]) for one in self.plain["answers"]}

    def __repr__(self) -> str:
        errors = ", ".join(f"{label} ± {error:.4g}" for label, error in self.errors.items())
        state = "known already, free" if self.is_stored else f"ε = {self.epsilon:.4g}, δ = {self.delta:.2g}"
        return f"{state}: {errors}{'' if self.is_affordable or self.is_stored else '; more than is left'}"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(label)}</th><td>± {error:.4g}</td></tr>"
            for label, error in self.errors.items()
        )
        return f"<p>{escape(repr(self).partition(':')[0])}</p><table><tbody>{rows}</tbody></table>"


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class CuratorAnswers:
    """A question that was asked, with its answers by label. ``plain`` has all of it.

    ``status`` is ``answered``, ``failed`` (and charged), or ``reserved`` (charged, and not answered yet).
    """

    plain: Plain

    @property
    def id(self) -> str:
        """The number of the record."""
        return str(self.plain["id"])

    @property
    def status(self) -> str:
        """Where the question stands."""
        return str(self.plain["status"])

    @property
    def epsilon(self) -> float:
        """What it cost when it was first asked."""
        return _number(self.plain["epsilon"])

    @property
    def is_stored(self) -> bool:
        """Whether it was given again, at no cost."""
        return bool(self.plain["stored"])

    @property
    def answers(self) -> tuple[Answer, ...]:
        """The answers, as ``privet.release`` gives them. None where the question failed."""
        content = self.plain["answer"]
        if content is None:
            return ()
        if not isinstance(content, Mapping) or not isinstance(content.get("answers"), list):
            raise Unreadable("This answer must be numbers, and is something else. Read 'plain' instead.")
        labels = list(self.plain.get("labels") or [one["label"] for one in content["answers"]])
        return tuple(
            answer_from_plain(label, {name: _finite(value) for name, value in one.items() if name != "label"})
            for label, one in zip(labels, content["answers"], strict=True)
        )

    def __getitem__(self, label: str) -> Answer:
        for answer in self.answers:
            if answer.label == label:
                return answer
        known = ", ".join(repr(answer.label) for answer in self.answers) or "none"
        raise InvalidArgument(f"'label' must be one of {known}, got {label!r}. Choose one.")

    def __iter__(self) -> Iterator[Answer]:
        return iter(self.answers)

    def __repr__(self) -> str:
        if self.plain["answer"] is None:
            return "failed; charged" if self.status == "failed" else "charged; not answered yet"
        if not isinstance(self.plain["answer"].get("answers"), list):
            return f"{self.status}: {', '.join(self.plain['answer'])}"
        return "\n".join(
            f"{label}{f' [{key}]' if key else ''}: {value:.6g} ± {error:.3g}"
            for label, key, value, error in _rows(self.answers)
        )

    def _repr_html_(self) -> str:
        if not isinstance((self.plain["answer"] or {}).get("answers"), list):
            return f"<p>{escape(repr(self))}</p>"
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(label)}</th><td "
            f"style='text-align:left'>{escape(key)}</td>"
            f"<td>{value:.6g}</td><td>± {error:.3g}</td></tr>"
            for label, key, value, error in _rows(self.answers)
        )
        cost = "given again, free" if self.is_stored else f"ε = {self.epsilon:.4g}"
        return (
            "<table><thead><tr><th>statistic</th><th>key</th><th>value</th><th>error</th></tr></thead>"
            f"<tbody>{rows}</tbody></table><p>{escape(cost)}</p>"
        )


def _rows(answers: tuple[Answer, ...]) -> Iterator[tuple[str, str, float, float]]:
    for answer in answers:
        if isinstance(answer.value, tuple) and isinstance(answer.error, tuple):
            errors = {str(key): error for key, error in answer.error}
            for key, value in answer.value:
                words = ", ".join(map(str, key)) if isinstance(key, tuple) else str(key)
                yield answer.label, words, float(value), float(errors[str(key)])
        elif not isinstance(answer.value, tuple) and not isinstance(answer.error, tuple):
            yield answer.label, "", float(answer.value), float(answer.error)


def _number(value: Any) -> float:  # noqa: ANN401  # whatever JSON holds
    return {"Infinity": math.inf, "-Infinity": -math.inf}[value] if isinstance(value, str) else float(value)


def _finite(value: Any) -> Any:  # noqa: ANN401  # whatever JSON holds
    """The infinite numbers, which are text in JSON, as numbers again."""
    match value:
        case "Infinity" | "-Infinity":
            return _number(value)
        case list():
            return [
                part if index == 0 and len(value) == 2 and isinstance(part, str) else _finite(part)
                for index, part in enumerate(value)
            ]
    return value
