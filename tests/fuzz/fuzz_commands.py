"""Commands with hostile words and files, in this process: an answer or one sentence, an exit code that is promised, and no traceback."""

import argparse
import contextlib
import io
import json
import random
from collections import Counter
from pathlib import Path

import numpy as np
from fuzz_limits import limited

import privet
from privet.cli import main
from privet.cli.exit_codes import ExitCode

WORDS = [
    "", " ", "-", "--", "0", "-1", "1e400", "-1e400", "nan", "inf", "1e-400", "9" * 5000, "1/0", "0/0", "1/3", "0x10", "１", "true", "[]", "{}",
    "None", "\ud800", "\x1b[2J", "a\nb", "\u202e", "x" * 5000, "../../..", "/", "/dev/null", "/dev/full", "/dev/zero", "loss", "a:0:1", "a:1:0", "a:nan:1",
    ":", "::", "a:b:c", "value:0:5", "key", "value:0.5:0:5", "add-remove", "user", "auc=0.6", "tpr@0=1", "=", "@", "*", "%s", "{0}", "--help", "--json",
]  # fmt: skip

# Commands that have an answer: the fuzzer changes a word or two. A command that is not here is drawn from its options alone.
FORMS = [
    "account --noise-multiplier 1 --sampling-rate 0.01 --steps 10 --delta 1e-5",
    "account {}ledger.json --delta 1e-5",
    "account --noise-multiplier 2 --steps 3 --delta 1e-6 --adjacency replace-one --unit user",
    "calibrate --epsilon 3 --delta 1e-5 --steps 10",
    "calibrate --tpr 0.2 --fpr 0.01 --steps 10",
    "explain --epsilon 1 --delta 1e-5",
    "explain {}ledger.json --delta 1e-5 --plot {}new.svg",
    "release {}table.csv --count --epsilon 1",
    "release {}table.csv --mean value:0:5 --group-by key --epsilon 1 --delta 1e-6 --privacy-unit who",
    "release {}table.csv --sum value:0:5 --epsilon 1 --ledger {}spent.json",
    "release {}table.csv --count --epsilon 1 --rehearse --population 5 --ledger {}spent.json",
    "synthesize {}table.csv --column key:a,b --bins value:0:5:5 --epsilon 1 --delta 1e-6 --out {}new.csv",
    "train {}network.py --epsilon 3 --delta 1e-3 --epochs 1 --out {}new.pt",
    "compare {}report.json {}report.json",
    "ledger {}ledger.json",
    "ledger {}spent.json",
    "audit --members {}scores.csv --nonmembers {}scores.csv --out {}new.json",
    "audit {}model_fine.py --attacks gap --seed 0",
    "audit-table {}table.csv --quasi key --secret value",
    "audit-table {}table.csv --quasi key,value --with {}table.csv --key who --sampling-fraction 0.1",
    "audit {}model_nan.py",
    "audit {}model_raises.py --json",
    "audit {}model_text.py",
    "audit {}model_shape.py",
    "audit {}model_exit.py",
    "audit {}wrong.py",
    "audit-text {}mails.py --samples 0",
    "verify {}report.json --members {}scores.csv --nonmembers {}scores.csv",
    "verify {}report.json --ledger {}ledger.json",
    "demo --out {}new.html",
    "curator verify {}steward.toml",
    "curator export {}steward.toml visits --registry",
    "curator grant {}steward.toml ann visits --epsilon 1 --delta 1e-7",
    "curator add-analyst {}steward.toml ann --group a --key",
    "curator add-dataset {}steward.toml visits --path x.csv --unit who --rows 1 --groups 1 --column a:whole:0:9 --epsilon 1 --delta 0",
    "federated demo --epsilon -1 --out {}new.html",
]


def _files(folder: Path) -> list[str]:
    """Files that a command may be pointed at: right ones, damaged ones, and programs that misbehave."""
    made: dict[str, bytes] = {
        "table.csv": b"who,key,value\n"
        + b"".join(b"%d,%s,%d\n" % (n, b"ab"[n % 2 : n % 2 + 1], n % 5) for n in range(60)),
        "ragged.csv": b"a,b\n1\n1,2,3\n\x00\xff,\n",
        "empty.csv": b"",
        "scores.csv": b"score\n1\n2\n3\n4\n",
        "words.csv": b"score\nx\n\xff\n",
        "ledger.json": privet.Ledger(privet.AddRemove())
        .spend("a", privet.events.Gaussian(1.0))
        .to_json()
        .encode(),
        "cut.json": b'{"format": "privet-ledger", "vers',
        "deep.json": b"[" * 100_000,
        "list.json": b"[1, 2]",
        "nan.json": b'{"format": "privet-event", "version": 1, "event": {"kind": "gaussian", "noise_multiplier": NaN}}',
        "long.json": b'{"version": ' + b"9" * 6000 + b"}",
        "raises.py": b"raise ValueError('mine')",
        "exits.py": b"import sys; sys.exit(0)",
        "syntax.py": b"def",
        "nothing.py": b"",
        "nul.py": b"\0",
        "latin.py": b"# \xe9\n",
        "wrong.py": b"model = members = nonmembers = 3",
        "recursive.py": b"def f(): f()\nf()",
        "model.toml": b"[model",
        "steward.toml": b"version = 1\n[datasets]\n",
        "table.parquet": b"PAR1",
        "array.npy": b"\x93NUMPY\x01\x00v\x00{'descr': '|O'",
        "model.pt": b"PK\x03\x04",
    }
    head = b"import numpy as np\nfrom privet.attacks import Probabilities\nmembers = nonmembers = (np.zeros((20, 2)), np.arange(20) % 2)\n"
    made["network.py"] = (
        b"import torch\nmodel = torch.nn.Linear(2, 2)\n"
        b"members = (torch.zeros(40, 2), torch.zeros(40, dtype=torch.int64))\n"
    )
    made["mails.py"] = (
        b"from privet.attacks.text import ByteEncoder, NGramModel\nencoder = ByteEncoder()\n"
        b"members, nonmembers = ([f'{side} mail {n * 7919}' for n in range(12)] for side in 'ab')\n"
        b"model = NGramModel([encoder.encode(mail) for mail in members], vocabulary=257, order=3, end=256)\n"
    )
    bodies = {
        "raises": "1 / 0", "none": "None", "nan": "np.full((len(rows), 2), np.nan)", "text": "'yes'", "shape": "np.ones((3, 3, 3))",
        "fewer": "np.full((1, 2), 0.5)", "negative": "np.full((len(rows), 2), -1.0)", "exit": "exit(0)", "fine": "np.full((len(rows), 2), 0.5)",
    }  # fmt: skip
    for name, body in bodies.items():
        made[f"model_{name}.py"] = head + f"model = Probabilities(lambda rows: {body})\n".encode()
    for name, content in made.items():
        (folder / name).write_bytes(content)
    np.save(folder / "scores.npy", np.arange(5.0))
    with contextlib.redirect_stdout(io.StringIO()):
        scores = str(folder / "scores.csv")
        main(["audit", "--members", scores, "--nonmembers", scores, "--out", str(folder / "report.json")])
    (folder / "folder").mkdir()
    return [
        str(folder / name)
        for name in (*made, "scores.npy", "report.json", "folder", "missing.json", "new.json", "new.md")
    ]


def commands() -> dict[str, argparse.ArgumentParser]:
    """All commands, as the parser has them."""
    from privet.cli import parser as module

    actions = module._make_parser()._actions
    (choices,) = [action.choices for action in actions if isinstance(action, argparse._SubParsersAction)]
    return dict(choices)


class CommandFuzzer:
    """Draws words for a command from its own options."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.random = random.Random(seed)
        self.folder = f"{folder}/"
        self.files = _files(folder)
        self.commands = commands()
        self.calls = 0
        self.codes: Counter = Counter()
        self.faults: list[tuple[list[str], str]] = []

    def words(self, name: str) -> list[str]:
        """A command with some of its options, each with a file, a number or a hostile word."""
        pick = self.random.choice
        known = [form for form in FORMS if form.split()[0] == name]
        if known and self.random.random() < 0.7:
            found = pick(known).format(*[self.folder] * 9).split()
            for _ in range(pick([0, 1, 1, 2])):
                found[self.random.randrange(1, len(found))] = pick(pick([WORDS, self.files]))
            return found + ["--json"] * (self.random.random() < 0.3)
        actions = [action for action in self.commands[name]._actions if action.dest != "help"]
        found = [name]
        for action in actions:
            if not action.option_strings:
                found += [pick(self.files)] if self.random.random() < 0.85 else []
        options = [action for action in actions if action.option_strings]
        for action in self.random.sample(options, min(len(options), self.random.randrange(1, 7))):
            found.append(pick(action.option_strings))
            if action.nargs != 0:
                found.append(self.value(action))
        if self.random.random() < 0.1:
            found.insert(self.random.randrange(1, len(found) + 1), pick(WORDS))
        return found

    def value(self, action: argparse.Action) -> str:
        drawn = self.random.random()
        if action.choices and drawn < 0.5:
            return str(self.random.choice(list(action.choices)))
        if drawn < 0.4:
            return self.random.choice(["1", "0.5", "1e-5", "2", "10", "value:0:5", "key", "who"])
        return self.random.choice(self.files if drawn < 0.7 else WORDS)

    def call(self, words: list[str]) -> None:
        self.calls += 1
        out, err = io.StringIO(), io.StringIO()
        try:
            with limited(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = main(words)
        except BaseException as error:
            self.faults.append((words, f"{type(error).__name__} passed through"))
            return
        self.codes[int(code)] += 1
        said = err.getvalue()
        if "Traceback" in said or code not in (
            ExitCode.HELD,
            ExitCode.BROKEN,
            ExitCode.REFUSED,
            ExitCode.FAILED,
        ):
            self.faults.append((words, f"{code} {said[-400:]}"))
        if "--json" in words and code in (0, 2) and "--help" not in words and "-h" not in words:
            try:
                json.loads(out.getvalue())
            except ValueError:
                self.faults.append((words, f"no JSON: {out.getvalue()[:200]!r}"))
