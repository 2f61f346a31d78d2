"""Fingerprints: the same for the same, others for others, and nothing that confirms a guess without the key."""

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from privet.adjacency import AddRemove, ReplaceOne
from privet.errors import InvalidArgument, Unreadable
from privet.events import Gaussian
from privet.fingerprints import (
    FingerprintKey,
    Hashing,
    code_fingerprint,
    ledger_document_fingerprint,
    ledger_fingerprint,
    package_versions,
    records_content,
    scores_content,
    take_fingerprint,
)
from privet.ledger import Ledger
from privet.pipeline import audit, audit_scores
from privet.pipeline.identification import bare_model, find_ledger, model_fingerprint, parameters_content
from privet.reporting.documents.cnil import cnil_document
from privet.reporting.documents.dpia import dpia_page
from privet.reporting.documents.model_card import model_card
from privet.reporting.documents.report_json import document, read_document
from privet.scores import Records

KEY = FingerprintKey(bytes(range(32)))
ROWS, LABELS = np.arange(12.0).reshape(6, 2), np.array([0, 1, 0, 1, 0, 1])


# The canonical forms


def test_golden_digests_by_hand():
    """SHA-256 and HMAC-SHA256 by their definitions (RFC 2104), of the forms that the docstring describes."""
    message = b"privet fingerprint 1: ledger\n{}"
    assert take_fingerprint("ledger", b"{}", None).digest == hashlib.sha256(message).hexdigest()
    inner = bytes(byte ^ 0x36 for byte in KEY.secret + bytes(32))
    outer = bytes(byte ^ 0x5C for byte in KEY.secret + bytes(32))
    by_hand = hashlib.sha256(outer + hashlib.sha256(inner + message).digest()).hexdigest()
    keyed = take_fingerprint("ledger", b"{}", KEY)
    assert (keyed.hashing, keyed.digest) == (Hashing.KEYED, by_hand)
    assert str(keyed) == f"hmac-sha256:{by_hand}"


def test_a_state_dict_by_hand():
    torch = pytest.importorskip("torch")
    state = {"b": torch.tensor(3, dtype=torch.int16), "a": torch.tensor([[1.0, 2.0]], dtype=torch.float32)}
    parts = b"a|torch.float32|(1, 2)\n" + np.array([1, 2], "<f4").tobytes() + b"b|torch.int16|()\n\x03\x00"
    assert parameters_content(state) == hashlib.sha256(parts).hexdigest().encode()


def test_records_are_identified_by_value_in_any_order():
    content = records_content(Records(ROWS, LABELS))
    order = np.array([3, 1, 5, 0, 2, 4])
    assert records_content(Records(ROWS[order].astype(np.float32), LABELS[order])) == content
    assert records_content(Records(ROWS[:5], LABELS[:5])) != content
    assert records_content(Records(ROWS, 1 - LABELS)) != content
    assert records_content(Records(ROWS)) != content
    assert records_content(Records(ROWS + np.eye(6, 2) * 1e-12, LABELS)) != content
    twice = np.array([0, 0, 1, 2, 3, 4, 5])
    assert records_content(Records(ROWS[twice], LABELS[twice])) != content


def test_groups_belong_to_their_records():
    groups = np.array(["a", "a", "b", "b", "a", "b"])
    content = records_content(Records(ROWS, LABELS, groups))
    assert content != records_content(Records(ROWS, LABELS))
    assert content != records_content(Records(ROWS, LABELS, groups[::-1]))
    assert content == records_content(Records(ROWS[::-1], LABELS[::-1], groups[::-1]))


def test_scores_are_identified_by_value_in_any_order():
    assert scores_content(np.array([1.0, 2.0])) == scores_content(np.array([2.0, 1.0]))
    assert scores_content(np.array([1.0, 2.0])) != scores_content(np.array([1.0, 2.5]))


def test_ledgers():
    ledger = Ledger(AddRemove()).spend("a", Gaussian(1.0))
    found = ledger_fingerprint(ledger)
    assert found == ledger_fingerprint(Ledger.from_json(ledger.to_json()))
    assert found == ledger_document_fingerprint(dict(reversed(json.loads(ledger.to_json()).items())))
    assert found.hashing is Hashing.PLAIN
    others = [
        Ledger(AddRemove()).spend("b", Gaussian(1.0)),
        Ledger(AddRemove()).spend("a", Gaussian(1.0 + 1e-15)),
        Ledger(ReplaceOne()).spend("a", Gaussian(1.0)),
        ledger.spend("a", Gaussian(1.0)),
    ]
    assert len({found, *map(ledger_fingerprint, others)}) == 5


def test_code_is_that_of_the_package(tmp_path, monkeypatch):
    """A file that changes, moves or is added is another code; compiled files are none."""
    import privet.fingerprints as module

    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.py").write_text("1")

    real = code_fingerprint()  # which is kept, and must not be that of the folder

    def found():
        monkeypatch.setattr(module, "files", lambda _: tmp_path)
        return module.code_fingerprint.__wrapped__()

    first = found()
    assert first != real
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").write_bytes(b"1")
    assert found() == first
    (tmp_path / "sub" / "a.py").write_text("2")
    second = found()
    (tmp_path / "sub" / "a.py").rename(tmp_path / "a.py")
    assert len({first, second, found()}) == 3
    assert {"python", "numpy", "scipy"} <= set(package_versions())


# Models


def test_a_module_is_its_parameters_and_buffers():
    torch = pytest.importorskip("torch")
    from privet.attacks.torch_views import TorchView

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    found = model_fingerprint(net, KEY)
    assert found == model_fingerprint(net.eval(), KEY) == model_fingerprint(TorchView(net), KEY)
    assert found == take_fingerprint("parameters", parameters_content(net.state_dict()), KEY)
    with torch.no_grad():
        net[1].running_mean[0] += 1e-6
    changed = model_fingerprint(net, KEY)
    assert len({found, changed, model_fingerprint(net.double(), KEY), model_fingerprint(net, None)}) == 4
    assert model_fingerprint(net.to(torch.bfloat16), KEY) is not None


def test_a_model_comes_with_its_ledger_or_without():
    class Given:
        model, ledger, canaries = "the model", Ledger(AddRemove()), None

    assert (bare_model(Given()), find_ledger(Given())) == ("the model", Given.ledger)
    assert (bare_model("alone"), find_ledger("alone")) == ("alone", None)


_FIT = """
import numpy as np
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier
from privet.pipeline.identification import model_fingerprint
generator = np.random.default_rng(0)
rows, labels = generator.normal(size=(60, 3)), np.arange(60) % 2
models = DecisionTreeClassifier(random_state=0), KNeighborsClassifier(algorithm="kd_tree")
digests = [model_fingerprint(model.fit(rows, labels), None).digest for model in models]
print(digests)
"""


def test_an_estimator_has_the_same_fingerprint_in_every_process():
    pytest.importorskip("sklearn")
    environment = {**os.environ, "PYTHONHASHSEED": "17"}
    other = subprocess.run(
        [sys.executable, "-c", _FIT], env=environment, capture_output=True, text=True, check=True
    ).stdout
    here = {}
    exec(_FIT, here)
    assert other.strip() == str(here["digests"])
    assert len(set(here["digests"])) == 2


def test_what_cannot_be_taken_apart_has_no_fingerprint():
    assert model_fingerprint((part for part in ()), KEY) is None
    assert model_fingerprint(lambda rows: rows, KEY) is not None


# Nothing confirms a guess without the key


def test_keys():
    fresh = FingerprintKey.generate()
    assert fresh != FingerprintKey.generate()
    assert FingerprintKey.from_text(fresh.to_text()) == fresh
    assert fresh.secret.hex() not in repr(fresh) + fresh.name
    assert len({fresh.name, KEY.name}) == 2
    for text in ("", "privet-fingerprint-key-1", "privet-fingerprint-key-1 00", "x " + "0" * 64, "zz " * 2):
        with pytest.raises(Unreadable, match="key"):
            FingerprintKey.from_text(text)


def forms(report):
    return [document(report), model_card(report), dpia_page(report), cnil_document(report)]


def every_digest(records):
    """Whatever somebody who guesses the records can compute without a key."""
    return {
        take_fingerprint("records", records_content(records), None).digest,
        records_content(records).decode(),
        *(one.decode() for one in records.hashes.tolist()),
    }


def test_no_form_holds_the_key_or_a_hash_that_confirms_a_guess():
    from sklearn.neighbors import KNeighborsClassifier

    generator = np.random.default_rng(0)
    sides = [Records(generator.normal(size=(60, 3)), np.arange(60) % 2) for _ in range(2)]
    model = KNeighborsClassifier().fit(sides[0].inputs, sides[0].labels)  # which holds the members themselves
    report = audit(model, *sides, progress=False)
    found = report.worst.fingerprints
    assert {one.hashing for one in (found.model, found.members, found.nonmembers)} == {Hashing.KEYED}
    guesses = every_digest(sides[0]) | every_digest(sides[1]) | {model_fingerprint(model, None).digest}
    for text in forms(report):
        assert report.key.secret.hex() not in text
        assert not any(guess in text for guess in guesses)
        assert found.members.digest in text
        assert found.model.digest in text
    again = audit(model, *sides, progress=False)
    assert (
        again.worst.fingerprints.members != found.members
    )  # a fresh key: nobody can tell that the data is the same
    same = audit(model, *sides, progress=False, key=report.key)
    assert same.worst.fingerprints == found
    public = audit(model, *sides, progress=False, public_model=True)
    assert public.worst.fingerprints.model == model_fingerprint(model, None)
    assert public.worst.fingerprints.members.hashing is Hashing.KEYED


@pytest.mark.parametrize("which", ["model", "members", "nonmembers", "ledger", "code", "key"])
def test_every_fingerprint_is_in_every_form(which):
    generator = np.random.default_rng(0)
    ledger = Ledger(AddRemove()).spend("a", Gaussian(1.0))
    report = audit_scores(generator.normal(size=40), generator.normal(size=40), ledger=ledger)
    found = replace(report.worst.fingerprints, model=take_fingerprint("object", b"", None))
    report = replace(report, audits=(replace(report.worst, fingerprints=found),))
    value = found.key if which == "key" else getattr(found, which, report.origin.code)
    told = value if which == "key" else value.digest
    writers = [*forms(report)]
    if importlib.util.find_spec("plotly") is not None:
        from privet.reporting.page import page

        writers.append(page(report))
    assert all(told in text for text in writers)
    if which in ("members", "nonmembers"):
        assert read_document(writers[0])["models"][0]["fingerprints"]["data"] == "scores"


def test_the_key_is_for_its_owner_and_is_not_written_over(tmp_path):
    report = audit_scores(np.arange(30.0), np.arange(30.0), key=KEY)
    path = report.save_key(tmp_path / "a.key")
    assert path.stat().st_mode & 0o077 == 0
    assert FingerprintKey.from_text(path.read_text()) == KEY
    report.save_key(path)
    with pytest.raises(InvalidArgument, match="another key"):
        audit_scores(np.arange(30.0), np.arange(30.0)).save_key(path)
    with pytest.raises(InvalidArgument, match="has none"):
        replace(report, key=None).save_key(tmp_path / "b.key")
    assert not (tmp_path / "b.key").exists()
