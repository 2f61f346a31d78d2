"""``privet verify``: whether a model, data and a ledger are those that a report is about.

Each thing that is given gets its fingerprint, as in an audit. The fingerprint is compared with that of the
report. 0: all that was given is the same. 1: something differs, or was given and could not be compared. What
was not given is listed as not checked. The code that made the report is compared too, and does not decide: a
later version may check an older report.
"""

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, final

from privet.attacks.fitted import class_names
from privet.cli.audit_inputs import Subject, ledger_from, scores_from, subject_from
from privet.cli.audit_tables import records_from
from privet.cli.exit_codes import ExitCode
from privet.cli.output import CliAnswer, paragraph, table
from privet.cli.report_file import key_file, read_key
from privet.errors import InvalidArgument, MissingPackage, PrivetError, Unreadable
from privet.fingerprints import (
    Fingerprint,
    FingerprintKey,
    Hashing,
    code_fingerprint,
    ledger_document_fingerprint,
    ledger_fingerprint,
    records_content,
    scores_content,
    take_fingerprint,
)
from privet.ledger import Ledger
from privet.paths import is_file
from privet.pipeline.identification import bare_model, find_ledger, model_fingerprint, parameters_content
from privet.pipeline.published_files import read_published, table_fingerprint
from privet.pipeline.records import read_records
from privet.reporting.documents.report_json import read_document

__all__ = ["run"]

_DIFFERENT = ExitCode.BROKEN
_NO_KEY = "its fingerprint is keyed, and no key was given"


@final
class Comparison(StrEnum):
    """How one comparison ended."""

    MATCHES = "matches"
    DIFFERS = "differs"
    NOT_CHECKED = "not checked"


@final
@dataclass(frozen=True)
class Compared:
    """One comparison with the report. ``decides``: the exit code depends on it."""

    what: str
    outcome: Comparison
    note: str
    decides: bool

    @property
    def failed(self) -> bool:
        """Whether the thing was given and does not match."""
        return self.decides and self.outcome is not Comparison.MATCHES


def run(arguments: argparse.Namespace) -> CliAnswer:
    """Compare everything that was given with the fingerprints of one model of a report."""
    sources = ("subject", "model", "members", "nonmembers", "ledger", "table")
    if all(getattr(arguments, name) is None for name in sources):
        raise InvalidArgument(
            "'privet verify' must be given something to hold against the report, got the report alone. "
            "Give the .py or .toml file of the audit, or --model, --members, --nonmembers, --table or "
            "--ledger."
        )
    report = _report(Path(arguments.report))
    model = _model(report, arguments.name)
    found = list(_compare_all(report, model, arguments))
    failed = [one for one in found if one.failed]
    sentence = _describe_outcome(model["name"], found, failed)
    rows = [[one.what, str(one.outcome), one.note or "–"] for one in found]
    return CliAnswer(
        [paragraph(sentence), table(["", "compared with the report", "note"], rows)],
        {
            "verdict": sentence,
            "model": model["name"],
            "same": not failed,
            "compared": [
                {"what": one.what, "outcome": one.outcome.value, "note": one.note, "decides": one.decides}
                for one in found
            ],
        },
        _DIFFERENT if failed else 0,
    )


def _describe_outcome(name: str, found: list[Compared], failed: list[Compared]) -> str:
    if failed:
        different = [one.what for one in failed if one.outcome is Comparison.DIFFERS]
        if different:
            return (
                f"This is not what the report on “{name}” is about: {', '.join(different)} "
                f"differ{'s' * (len(different) == 1)}."
            )
        return (
            f"It is not confirmed that the report on “{name}” is about this: "
            f"{', '.join(one.what for one in failed)} could not be compared."
        )
    same = [one.what for one in found if one.decides]
    open_ones = [one.what for one in found if one.outcome is Comparison.NOT_CHECKED]
    rest = f" Not checked: {', '.join(open_ones)}." if open_ones else ""
    return (
        f"The report on “{name}” is about this: {', '.join(same)} "
        f"{'match' if len(same) > 1 else 'matches'}.{rest}"
    )


def _report(path: Path) -> Mapping[str, Any]:
    try:
        return read_document(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as failed:
        if isinstance(failed, PrivetError):
            raise
        raise Unreadable(
            f"{str(path)!r} must be a report.json that can be read, and is not. Check the name; other "
            "forms are for people."
        ) from None


def _model(report: Mapping[str, Any], name: str | None) -> Mapping[str, Any]:
    models: list[Mapping[str, Any]] = report["models"]
    known = ", ".join(repr(model["name"]) for model in models)
    if name is None and len(models) > 1:
        raise InvalidArgument(
            f"'--name' must say which model of the report is meant, got none. Choose one of {known}."
        )
    chosen = models[0] if name is None else next((model for model in models if model["name"] == name), None)
    if chosen is None:
        raise InvalidArgument(f"'--name' must be a model of the report, got {name!r}. Choose one of {known}.")
    return chosen


def _compare_all(
    report: Mapping[str, Any], model: Mapping[str, Any], arguments: argparse.Namespace
) -> Iterator[Compared]:
    """Model, data, ledger and code, in this order."""
    stored: Mapping[str, Any] = model.get("fingerprints") or {}
    key = _key(stored, arguments)
    if model.get("table") is not None or arguments.table is not None:
        yield _compare_table(model, _read(stored.get("model")), arguments.table, key)
        yield from _ledgers(
            model, stored, None if arguments.ledger is None else ledger_from(arguments.ledger)
        )
        yield _code(report)
        return
    subject = None if arguments.subject is None else subject_from(Path(arguments.subject))
    given = _Given(subject, arguments, str(stored.get("data", "records")), key)
    for what, take in (("model", given.model), ("members", given.members), ("nonmembers", given.nonmembers)):
        expected = _read(stored.get(what))
        missing = expected is not None and expected.hashing is Hashing.KEYED and key is None
        if not given.has(what):
            yield Compared(what, Comparison.NOT_CHECKED, "not given", False)
        elif expected is None or missing:
            note = "the report has no fingerprint of it" if expected is None else _NO_KEY
            yield Compared(what, Comparison.NOT_CHECKED, note, True)
        else:
            yield _compare_fingerprint(what, take(expected.hashing), expected)
    yield from _ledgers(model, stored, given.ledger())
    yield _code(report)


def _compare_table(
    model: Mapping[str, Any], expected: Fingerprint | None, file: str | None, key: FingerprintKey | None
) -> Compared:
    """The columns of a table that the report is about."""
    about = model.get("table")
    if file is None:
        return Compared("table", Comparison.NOT_CHECKED, "not given", False)
    if about is None or expected is None:
        return Compared("table", Comparison.NOT_CHECKED, "the report has no fingerprint of it", True)
    if key is None:
        return Compared("table", Comparison.NOT_CHECKED, _NO_KEY, True)
    names = [*about["quasi"], *([] if about["secret"] is None else [about["secret"]])]
    found = read_published("--table", file, names)
    if any(name not in found for name in names) or len(found) == 0:
        return Compared("table", Comparison.DIFFERS, "it has other columns, or no rows", True)
    return _compare_fingerprint("table", table_fingerprint(found.select(names), key), expected)


@final
@dataclass(frozen=True)
class _Given:
    """What was given on the command line, by a file of an audit or by name."""

    subject: Subject | None
    arguments: argparse.Namespace
    data: str
    key: FingerprintKey | None

    def has(self, what: str) -> bool:
        return self.subject is not None or getattr(self.arguments, what) is not None

    def model(self, hashing: Hashing) -> Fingerprint | None:
        key = self._key(hashing)
        if self.arguments.model is not None:
            return take_fingerprint("parameters", parameters_content(_state(Path(self.arguments.model))), key)
        model = None if self.subject is None else self.subject.model
        return model_fingerprint(model, key)

    def members(self, hashing: Hashing) -> Fingerprint | None:
        return self._side("members", hashing)

    def nonmembers(self, hashing: Hashing) -> Fingerprint | None:
        return self._side("nonmembers", hashing)

    def ledger(self) -> Ledger | None:
        if self.arguments.ledger is not None:
            return ledger_from(self.arguments.ledger)
        if self.subject is None:
            return None
        return self.subject.ledger or find_ledger(self.subject.model)

    def _side(self, what: str, hashing: Hashing) -> Fingerprint:
        key, file = self._key(hashing), getattr(self.arguments, what)
        if self.data == "scores" and file is not None:
            return take_fingerprint("scores", scores_content(scores_from(f"--{what}", file)), key)
        if self.data == "scores":
            raise InvalidArgument(
                f"'--{what}' must be given for a report on scores, got a file that names a model. Give the "
                "scores."
            )
        if file is not None:
            return take_fingerprint(
                "records", records_content(records_from(Path(file), self.arguments.label or "label")), key
            )
        subject = self.subject
        names = None if subject is None else class_names(bare_model(subject.model))
        records = read_records(what, None if subject is None else getattr(subject, what), names)
        return take_fingerprint("records", records_content(records), key)

    def _key(self, hashing: Hashing) -> FingerprintKey | None:
        return self.key if hashing is Hashing.KEYED else None


def _compare_fingerprint(what: str, found: Fingerprint | None, expected: Fingerprint) -> Compared:
    if found is None:
        return Compared(what, Comparison.NOT_CHECKED, "it cannot be identified", True)
    if found == expected:
        return Compared(what, Comparison.MATCHES, "", True)
    return Compared(
        what, Comparison.DIFFERS, f"{found.digest[:12]}… here, {expected.digest[:12]}… in the report", True
    )


def _ledgers(model: Mapping[str, Any], stored: Mapping[str, Any], given: Ledger | None) -> Iterator[Compared]:
    """The ledger that was given, and the one that stands in the report itself."""
    expected, own = _read(stored.get("ledger")), model.get("ledger")
    if own is not None and expected is not None:
        inside = ledger_document_fingerprint(own)
        if inside != expected:
            yield Compared("ledger in the report", Comparison.DIFFERS, "the report was changed", True)
    if given is None:
        yield Compared("ledger", Comparison.NOT_CHECKED, "not given", False)
    elif expected is None:
        yield Compared("ledger", Comparison.NOT_CHECKED, "the report has no fingerprint of it", True)
    else:
        yield _compare_fingerprint("ledger", ledger_fingerprint(given), expected)


def _code(report: Mapping[str, Any]) -> Compared:
    expected = _read(report["origin"].get("code"))
    if expected is None:
        return Compared("code", Comparison.NOT_CHECKED, "the report has no fingerprint of it", False)
    if expected == code_fingerprint():
        return Compared("code", Comparison.MATCHES, "", False)
    note = f"made by Privet {report['origin']['privet_version']}, other code than here; this does not decide"
    return Compared("code", Comparison.DIFFERS, note, False)


def _key(stored: Mapping[str, Any], arguments: argparse.Namespace) -> FingerprintKey | None:
    """The key that was named, or the one beside the report; it must be that of the report."""
    usual = key_file(Path(arguments.report))
    path = Path(arguments.key) if arguments.key is not None else usual if is_file(usual) else None
    key = None if path is None else read_key(path)
    if key is not None and stored and key.name != stored.get("key"):
        raise InvalidArgument(
            f"'--key' must be the key of this report, whose name is {stored.get('key')}, got {key.name}. "
            f"Give the file that was written when the report was made."
        )
    return key


def _state(path: Path) -> Mapping[str, Any]:
    try:
        import torch
    except ImportError:
        raise MissingPackage(
            "'--model' needs the package 'torch', which is not installed. Run pip install 'privet[torch]'."
        ) from None
    try:
        state = torch.load(path, weights_only=True, map_location="cpu")
    except MemoryError:
        raise
    except Exception:
        state = None
    if not isinstance(state, Mapping):
        raise Unreadable(
            f"'--model' must be a file that torch.save(model.state_dict(), …) wrote, got {str(path)!r}. "
            f"For other models give the .py or .toml file of the audit."
        )
    return state


def _read(plain: Mapping[str, Any] | None) -> Fingerprint | None:
    return None if plain is None else Fingerprint(Hashing(plain["hashing"]), str(plain["digest"]))
