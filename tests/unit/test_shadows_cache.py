"""What was finished is never trained again, and what has changed always is."""

import io
import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from torch import nn

from privet.attacks.shadows import (
    SGD,
    Adam,
    CallableRecipe,
    Cosine,
    ScikitRecipe,
    Sequential,
    Stacked,
    TorchRecipe,
    conduct,
    study,
)
from privet.attacks.shadows.fingerprints import fingerprint
from privet.attacks.shadows.progress import ShadowProgress
from privet.errors import InvalidArgument
from privet.scores import Records

RANDOM = np.random.default_rng(1)
INPUTS = RANDOM.normal(size=(40, 5)).astype(np.float32)
RECORDS = Records(INPUTS, RANDOM.integers(0, 3, 40))


def small():
    return nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3))


def wider():
    return nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 3))


def smooth():
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))


RECIPE = TorchRecipe(model=small, epochs=2, batch_size=8)
TWICE = 2.0


def doubled():
    module = small()
    module[0].weight.data.mul_(TWICE)
    return module


def how(recipe=RECIPE, records=RECORDS, models=4, **given):
    return conduct(recipe, records, models, **({"seed": 0, "engine": Stacked(threads=1)} | given))


def test_the_second_time_nothing_is_trained(tmp_path):
    first = how(cache=tmp_path)
    second = how(cache=tmp_path, engine=Sequential())
    assert (first.trained, first.reused, second.trained, second.reused) == (4, 0, 0, 4)
    assert second.choice is None
    assert np.array_equal(first.references.signals, second.references.signals)
    assert np.array_equal(first.references.members, second.references.members)
    assert "4 of them from the cache" in str(second)


def test_a_study_can_grow(tmp_path):
    first = how(cache=tmp_path)
    more = how(models=6, cache=tmp_path)
    assert (more.trained, more.reused) == (2, 4)
    assert np.array_equal(more.references.signals[:4], first.references.signals)


changed_inputs = INPUTS.copy()
changed_inputs[7, 2] += 1e-6


@pytest.mark.parametrize(
    "changes",
    [
        {"recipe": replace(RECIPE, learning_rate=0.11)},
        {"recipe": replace(RECIPE, epochs=3)},
        {"recipe": replace(RECIPE, batch_size=9)},
        {"recipe": replace(RECIPE, optimizer=SGD(momentum=0.8))},
        {"recipe": replace(RECIPE, optimizer=Adam())},
        {"recipe": replace(RECIPE, schedule=Cosine())},
        {"recipe": replace(RECIPE, schedule=Cosine(0.1))},
        {"recipe": replace(RECIPE, augmentation=lambda batch, _: batch)},
        {"recipe": replace(RECIPE, model=wider)},
        {"recipe": replace(RECIPE, model=smooth)},
        {"recipe": replace(RECIPE, model=doubled)},
        {"records": Records(changed_inputs, RECORDS.labels)},
        {"records": Records(INPUTS.astype(np.float64), RECORDS.labels)},
        {"records": Records(INPUTS, (RECORDS.labels + 1) % 3)},
        {"records": RECORDS.take(np.arange(40)[::-1])},
        {"seed": 1},
        {"queries": (lambda rows: -rows,)},
        {"keep_confidences": True},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_whatever_changes_is_trained_again(tmp_path, changes):
    how(cache=tmp_path)
    assert how(**changes, cache=tmp_path).reused == 0
    assert how(**changes, cache=tmp_path).trained == 0


def test_a_constant_that_the_model_reads_is_part_of_it(tmp_path, monkeypatch):
    recipe = replace(RECIPE, model=doubled)
    how(recipe, cache=tmp_path)
    monkeypatch.setattr(sys.modules[__name__], "TWICE", 3.0)
    assert how(recipe, cache=tmp_path).reused == 0


def test_new_code_and_new_versions_are_trained_again(tmp_path, monkeypatch):
    how(cache=tmp_path)
    monkeypatch.setattr("privet.attacks.shadows.cache._hash_own_code", lambda: "other code")
    assert how(cache=tmp_path).reused == 0
    monkeypatch.setattr("privet.attacks.shadows.cache.version", lambda package: f"{package} of tomorrow")
    assert how(cache=tmp_path).reused == 0


def test_a_forward_pass_that_changes_is_seen():
    def layer(negative):
        class Layer(nn.Module):
            def forward(self, x):
                return -x if negative else x

        return Layer

    assert fingerprint(layer(True)()) != fingerprint(layer(False)())
    assert fingerprint(layer(True)()) == fingerprint(layer(True)())


class Scaled(nn.Module):
    def forward(self, x):
        return TWICE * x


def test_a_constant_that_only_the_forward_pass_reads_is_seen(monkeypatch):
    before = fingerprint(Scaled)
    monkeypatch.setattr(sys.modules[__name__], "TWICE", 3.0)
    assert fingerprint(Scaled) != before


def test_what_cannot_be_followed_is_refused():
    for thing in ((x for x in (1, 2)), threading.Lock()):
        with pytest.raises(InvalidArgument, match="CallableRecipe with a version"):
            fingerprint(thing)


def test_estimators_and_functions(tmp_path):
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    def pipeline(strength):
        return ScikitRecipe(make_pipeline(StandardScaler(), LogisticRegression(C=strength)))

    assert how(pipeline(1.0), cache=tmp_path, engine=Sequential()).trained == 4
    assert how(pipeline(1.0), cache=tmp_path, engine=Sequential()).reused == 4
    assert how(pipeline(2.0), cache=tmp_path, engine=Sequential()).reused == 0

    def train(inputs, labels, seed):
        return LogisticRegression().fit(inputs, labels)

    with pytest.raises(InvalidArgument, match="version="):
        how(CallableRecipe(train), cache=tmp_path, engine=Sequential())
    assert how(CallableRecipe(train, "1"), cache=tmp_path, engine=Sequential()).trained == 4
    assert how(CallableRecipe(train, "1"), cache=tmp_path, engine=Sequential()).reused == 4
    assert how(CallableRecipe(train, "2"), cache=tmp_path, engine=Sequential()).reused == 0


def _bomb(path):
    """A small file that grows to 256 MB when it is read."""
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as zipped,
        zipped.open("signals.npy", "w", force_zip64=True) as part,
    ):
        described = {"descr": "<f8", "fortran_order": False, "shape": (1, 2**25)}
        np.lib.format.write_array_header_1_0(part, described)
        for _ in range(16):
            part.write(bytes(2**24))


def _promise(path):
    """A header that promises more than any memory holds."""
    with zipfile.ZipFile(path, "w") as zipped, zipped.open("signals.npy", "w") as part:
        np.lib.format.write_array_header_1_0(
            part, {"descr": "<f8", "fortran_order": False, "shape": (1, 2**50)}
        )


def _as_pipe(path):
    path.unlink()
    os.mkfifo(path)


def _as_link(path):
    path.unlink()
    path.symlink_to("/dev/zero")


def _as_other_method(path):
    data = bytearray(path.read_bytes())
    data[8:10] = (99).to_bytes(2, "little")
    central = data.rindex(b"PK\x01\x02")
    data[central + 10 : central + 12] = (99).to_bytes(2, "little")
    path.write_bytes(data)


DAMAGE = {
    "text": lambda path: path.write_bytes(b"not a table"),
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:100]),
    "one bit": lambda path: path.write_bytes(
        path.read_bytes()[:200] + bytes([path.read_bytes()[200] ^ 1]) + path.read_bytes()[201:]
    ),
    "other shape": lambda path: np.savez(path, signals=np.zeros((1, 3))),
    "other type": lambda path: np.savez(path, signals=np.zeros((1, 40), np.float32)),
    "objects": lambda path: np.savez(path, signals=np.array([[{}] * 40], dtype=object)),
    "more": lambda path: np.savez(path, signals=np.zeros((1, 40)), more=np.zeros(3)),
    "compressed": lambda path: np.savez_compressed(path, signals=np.zeros((1, 40))),
    "method": _as_other_method,
    "bomb": _bomb,
    "promise": _promise,
    "pipe": _as_pipe,
    "endless": _as_link,
}


def test_a_broken_file_is_trained_again_whatever_is_wrong_with_it(tmp_path):
    """The cache promises it. Nothing large is read: of the bomb no more than the file itself holds."""
    first = how(cache=tmp_path).references.signals
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for kind, damage in DAMAGE.items():
        broken = min(tmp_path.glob("*/*.npz"))
        damage(broken)
        again = how(cache=tmp_path)
        assert again.reused == 3, kind
        np.testing.assert_allclose(again.references.signals, first, atol=1e-4)
        assert how(cache=tmp_path).reused == 4
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150_000  # kB


def test_a_cache_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgument, match="'cache' must be a folder that can be written"):
        how(cache=tmp_path / "file")


def test_the_cache_is_for_its_owner(tmp_path):
    how(cache=tmp_path / "new")
    assert (tmp_path / "new").stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "new").glob("*/*"))


SCRIPT = """
    import sys, time
    import numpy as np
    from pathlib import Path
    from privet.attacks import Probabilities
    from privet.attacks.shadows import CallableRecipe, Sequential, study
    from privet.scores import Records

    def train(inputs, labels, seed):
        time.sleep(0.15)
        with open(sys.argv[2], "a") as log:
            log.write("x")
        return Probabilities(lambda rows: np.full((len(rows), 2), 0.5) + seed % 7 * 1e-4)

    records = Records(np.arange(20.0).reshape(10, 2), np.arange(10) % 2)
    study(CallableRecipe(train, "1"), records, 12, seed=0, cache=sys.argv[1], engine=Sequential())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_run_that_is_killed_goes_on_where_it_was(tmp_path, number):
    script, log, folder = tmp_path / "script.py", tmp_path / "log", tmp_path / "cache"
    script.write_text(textwrap.dedent(SCRIPT))
    command = [sys.executable, str(script), str(folder), str(log)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        while len(list(folder.glob("*/*.npz"))) < 3:
            assert process.poll() is None
            time.sleep(0.02)
        os.kill(process.pid, number)
        process.wait()
    assert process.returncode != 0
    finished = len(list(folder.glob("*/*.npz")))
    assert 3 <= finished < 12
    trained = len(log.read_text())
    subprocess.run(command, check=True)
    assert len(log.read_text()) - trained == 12 - finished
    assert len(list(folder.glob("*/*.npz"))) == 12


def test_an_interruption_between_tiles_keeps_what_is_done(tmp_path, monkeypatch):
    from privet.attacks.shadows import cache as module

    written = []
    put = module.Cache.put

    def put_or_stop(self, told):
        if len(written) == 4:
            raise KeyboardInterrupt
        put(self, told)
        written.append(told.model)

    monkeypatch.setattr(module.Cache, "put", put_or_stop)
    with pytest.raises(KeyboardInterrupt):
        how(models=12, cache=tmp_path, engine=Stacked(tile=4, threads=2))
    monkeypatch.undo()
    assert how(models=12, cache=tmp_path).reused == 4


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_bar_shows_the_engine_and_the_time_left(monkeypatch):
    now = iter(range(0, 1000, 3))
    monkeypatch.setattr("time.monotonic", lambda: float(next(now)))
    stream = Terminal()
    conduct(RECIPE, RECORDS, 4, seed=0, engine=Sequential(), stream=stream)
    assert "sequential" in stream.getvalue()
    assert "4/4" in stream.getvalue()
    assert "s left" in stream.getvalue()
    silent = Terminal()
    conduct(RECIPE, RECORDS, 4, seed=0, engine=Sequential(), stream=silent, progress=False)
    assert silent.getvalue() == ""


def test_the_bar_is_silent_in_a_pipe_and_where_it_is_quick(capsys):
    study(RECIPE, RECORDS, 2, seed=0, engine=Sequential())
    stream = Terminal()
    with ShadowProgress(2, "stacked", shown=True, stream=stream) as bar:
        bar.tick(1.0)
    assert stream.getvalue() == ""
    assert capsys.readouterr() == ("", "")


def test_nothing_is_written_without_a_cache(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    how()
    assert list(Path(tmp_path).iterdir()) == []
