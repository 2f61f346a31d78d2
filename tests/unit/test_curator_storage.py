"""What the curator's database promises: durable or refused, whole numbers rounded up, a chain in which every change shows."""

import io
import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("sqlalchemy")
pytest.importorskip("alembic")

from sqlalchemy import insert, text, update
from sqlalchemy.exc import OperationalError

from privet.accounting.filtering import Filtered
from privet.accounting.fold import fold
from privet.adjacency import AddRemove
from privet.curator.principals import Role
from privet.curator.refusals import CuratorUnavailable
from privet.curator.selftest import run_selftest
from privet.curator.selftest.judging import SeenAnswer, judge_round
from privet.curator.selftest.toys import ADJACENCY, DATASET, FINGERPRINT, DrawingWorker, NumberPlanner
from privet.curator.service import AnswerStatus
from privet.curator.serving.ledger_side import set_analyst_cap
from privet.curator.storage import (
    DatabaseCurator,
    HeadFile,
    HeadStream,
    Stewardship,
    open_database,
    open_engine,
    tables,
)
from privet.curator.storage.database import CommitUnknown
from privet.curator.storage.rules import caps_of, fix_filter, price, reached_epsilon, remaining_epsilon
from privet.curator.storage.units import ATTO, FEMTO, NO_COST, WITHOUT_BOUND, WholeCost, round_down, round_up
from privet.curator.storage.verification import verify_database
from privet.errors import BudgetExceeded, InvalidArgument, Unreadable
from privet.events import DiscreteGaussian, DiscreteLaplace, Laplace, Opaque
from privet.lineage import Head
from privet.releasing.budget import Budget

EVENTS = st.one_of(
    st.floats(0.5, 500).map(lambda scale: DiscreteLaplace(scale, 1)),
    st.floats(0.5, 500).map(Laplace),
    st.floats(1, 500).map(lambda scale: DiscreteGaussian(scale, 1)),
    st.tuples(st.floats(1e-6, 2), st.floats(0, 1e-7)).map(
        lambda pair: Opaque(epsilon=pair[0], delta=pair[1])
    ),
)


@given(st.floats(0, 1000), st.sampled_from([FEMTO, ATTO]))
def test_costs_are_rounded_up_and_caps_down(number, units):
    assert min(Fraction(number), Fraction(WITHOUT_BOUND, units)) <= Fraction(round_up(number, units), units)
    assert round_down(number, units) <= round_up(number, units)


@given(st.lists(EVENTS, max_size=8), st.floats(0.1, 5), st.sampled_from([0.0, 1e-6]))
def test_whatever_whole_numbers_permit_the_filter_permits(events, epsilon, delta):
    rule = fix_filter(Budget(epsilon=epsilon, delta=delta))
    meter = Filtered(rule)
    spent = price(rule, events, AddRemove())
    total = meter.zero()
    for event in events:
        total = meter.join(total, fold(meter, event, AddRemove()))
    if caps_of(rule).permits(spent):
        assert meter.reached_epsilon(total) <= epsilon * (1 + 1e-9)
        assert meter.reached_epsilon(total) <= reached_epsilon(rule, spent) * (1 + 1e-9)
        assert max(used.infinity for used in total) <= rule.claimable + 1e-15
        left = remaining_epsilon(rule, spent)
        if left > 0:
            assert caps_of(rule).permits(spent + price(rule, [Opaque(epsilon=left)], AddRemove()))


def test_a_loss_without_a_bound_fits_into_no_cap_and_stays():
    assert WholeCost(0, 0, WITHOUT_BOUND) + WholeCost(1, 1, 5) == WholeCost(1, 1, WITHOUT_BOUND)
    assert not caps_of(fix_filter(Budget(epsilon=1.0))).permits(WholeCost(0, 0, WITHOUT_BOUND))


def test_a_cap_of_thousands_has_something_left():
    assert remaining_epsilon(fix_filter(Budget(epsilon=5000.0, delta=1e-6)), NO_COST) == 500.0


@pytest.mark.parametrize("address", ["sqlite://", "sqlite:///:memory:", "mysql://x/y", "nonsense://"])
def test_a_database_that_forgets_is_refused(address):
    with pytest.raises(InvalidArgument, match="sqlite:///curator.db"):
        open_engine(address)


def test_sqlite_without_a_log_is_refused(tmp_path):
    engine = open_engine(f"sqlite:///file:{tmp_path}/x?mode=memory&uri=true")
    with pytest.raises(InvalidArgument, match="journal_mode = wal"):
        engine.connect()


def test_sqlite_is_durable_on_every_connection(tmp_path):
    engine = open_engine(str(tmp_path / "curator.db"))
    for _ in range(2):
        with engine.connect() as connection:
            assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        engine.dispose()


def test_the_migrations_make_the_tables(tmp_path):
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext
    from alembic.script import ScriptDirectory

    from privet.curator.storage import migrations
    from privet.curator.storage.schema import NEWEST

    database = open_database(str(tmp_path / "curator.db"))
    with database.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), tables.metadata) == []
    database.close()
    assert ScriptDirectory(next(iter(migrations.__path__))).get_heads() == [NEWEST]


def test_a_database_of_a_later_version_is_refused(tmp_path):
    database = open_database(str(tmp_path / "curator.db"))
    with database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    database.close()
    with pytest.raises(Unreadable, match="9999"):
        open_database(str(tmp_path / "curator.db"))


class Place:
    """A curator whose answers are fresh numbers, with two answers given."""

    def __init__(self, folder):
        self.draws, self.heads = folder / "draws", HeadFile(folder / "head")
        self.curator = DatabaseCurator.open(
            f"sqlite:///{folder}/curator.db",
            planner=NumberPlanner(),
            worker=DrawingWorker(self.draws),
            heads=self.heads,
        )
        self.database = self.curator.database
        self.steward = Stewardship(self.database, self.heads)
        self.steward.add_dataset(
            DATASET, fingerprint=FINGERPRINT, adjacency=ADJACENCY, cap=Budget(epsilon=1.0, delta=1e-6)
        )
        self.ann = self.steward.add_analyst("ann")
        self.steward.grant("ann", DATASET, cap=Budget(epsilon=50.0))
        self.records = [self.ask(number) for number in range(2)]

    def ask(self, number, key=None):
        return self.curator.ask(self.ann, DATASET, {"number": number}, idempotency_key=key or f"key {number}")


@pytest.fixture
def place(tmp_path):
    place = Place(tmp_path)
    yield place
    place.curator.close()


TAMPERING = {
    "a link says something else": "UPDATE chain SET body = replace(body, 'ann', 'eve') WHERE kind = 'charge'",
    "the last link is gone": "DELETE FROM chain WHERE position = (SELECT max(position) FROM chain)",
    "a link in the middle is gone": "DELETE FROM chain WHERE position = 4",
    "the head is moved back": "UPDATE curator SET links = links - 1",
    "less was spent": "UPDATE budgets SET measure = measure - 1 WHERE rank = 0",
    "a cap is larger": "UPDATE budgets SET largest_cap = largest_cap + 1 WHERE rank = 2",
    "another filter": "UPDATE budgets SET rule = (SELECT rule FROM budgets WHERE rank = 2) WHERE rank = 0",
    "an answer is another": "UPDATE records SET answer = '{\"value\":1}'",
    "an answer is taken back": "UPDATE records SET answer = NULL, status = 'failed'",
    "a record is gone": "DELETE FROM records WHERE id = (SELECT min(id) FROM records)",
    "a question is another": "UPDATE records SET question = '{\"number\":7}'",
    "a charge is smaller": "UPDATE charges SET largest = largest - 1",
    "a charge is gone": "DELETE FROM charges",
    "a late cap is called early": "UPDATE budgets SET late = 1",
}


@pytest.mark.parametrize("tampering", TAMPERING)
def test_verification_finds_every_change_by_hand(place, tampering):
    assert verify_database(place.database, place.heads).is_sound
    place.heads.close()
    with place.database.engine.begin() as connection:
        connection.exec_driver_sql("PRAGMA foreign_keys = OFF")
        for table in ("chain", "charges"):
            for act in ("update", "delete"):
                connection.exec_driver_sql(f"DROP TRIGGER {table}_forbids_{act}")
        connection.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
        if "record is gone" not in tampering:
            connection.exec_driver_sql(TAMPERING[tampering])
        else:
            connection.exec_driver_sql("DELETE FROM charges WHERE record_id = (SELECT min(id) FROM records)")
            connection.exec_driver_sql(TAMPERING[tampering])
    found = verify_database(place.database, place.heads)
    assert found.problems


def test_verification_notices_a_head_of_another_history(place):
    place.heads.close()
    exported = place.heads.last()
    place.heads.replace(Head(exported.identity, exported.links - 1, "0" * 64))
    assert "not on the chain" in verify_database(place.database, place.heads).problems[0]
    place.heads.replace(Head(exported.identity, exported.links + 5, "0" * 64))
    assert "behind its exported head" in verify_database(place.database, place.heads).problems[0]


def test_heads_survive_a_torn_line_and_are_compacted(tmp_path, monkeypatch):
    path = tmp_path / "head"
    heads = HeadFile(path)
    identity = "ab" * 16
    for links in range(1, 4):
        heads.write(Head(identity, links, "0" * 64))
    with path.open("a") as file:
        file.write(f"{identity}:9:00")
    assert heads.last().links == 3
    heads.write(Head(identity, 4, "0" * 64))
    heads.write(Head(identity, 2, "0" * 64))  # an older one is left out
    assert HeadFile(path).last().links == 4
    monkeypatch.setattr("privet.curator.storage.heads._MOST_LINES", 2)
    for links in range(5, 12):
        heads.write(Head(identity, links, "0" * 64))
    assert heads.last().links == 11
    assert len(path.read_text().splitlines()) <= 4
    heads.write_soon(Head(identity, 12, "0" * 64))
    heads.close()
    assert heads.last().links == 12
    path.write_text("nothing\n")
    with pytest.raises(Unreadable, match="exported heads"):
        heads.last()


def test_heads_for_a_log_collector():
    stream = io.StringIO()
    heads = HeadStream(stream)
    for links in (1, 2, 2, 1, 3):
        heads.write(Head("ab" * 16, links, "0" * 64))
    assert [line.split(":")[1] for line in stream.getvalue().splitlines()] == ["1", "2", "3"]


def test_a_commit_that_is_not_confirmed_counts_as_charged(place, monkeypatch):
    from sqlalchemy import Connection

    commit = Connection.commit

    def fail(self):
        commit(self)
        raise OperationalError("COMMIT", {}, Exception("the connection is gone"))

    monkeypatch.setattr(Connection, "commit", fail)
    record = place.ask(7)
    monkeypatch.undo()
    assert (record.status, record.answer) == (AnswerStatus.FAILED, None)
    again = place.ask(7)  # the same key: the reservation was there, and has failed
    assert again.status is AnswerStatus.FAILED
    assert again.id == record.id
    assert verify_database(place.database).is_sound


def test_a_transaction_that_fails_does_not_undo_its_neighbours(place):
    with pytest.raises(ValueError, match="one"), place.database.write() as connection:
        connection.execute(insert(tables.groups).values(name="lost"))
        raise ValueError("one")
    with place.database.write() as connection:
        connection.execute(insert(tables.groups).values(name="kept"))
    with place.database.read() as connection:
        assert connection.execute(text("SELECT name FROM groups")).scalars().all() == ["kept"]


def test_after_an_error_of_the_disk_nothing_of_a_batch_is_confirmed(place):
    """SQLite may undo everything then; a member that waits for the common commit must not be told that it is there."""
    import threading

    outcome = []
    inside, waits = threading.Event(), threading.Event()

    def first():
        try:
            with place.database.write() as connection:
                connection.execute(insert(tables.groups).values(name="first"))
                inside.set()
                waits.wait()
            outcome.append("confirmed")
        except CommitUnknown:
            outcome.append("unknown")

    def second():
        inside.wait()
        try:
            with place.database.write():
                raise OperationalError("INSERT", {}, Exception("disk I/O error"))
        except CuratorUnavailable:
            outcome.append("unavailable")

    threads = [threading.Thread(target=run) for run in (first, second)]
    for thread in threads:
        thread.start()
    inside.wait()
    while place.database._waiting == 0:
        pass
    waits.set()
    for thread in threads:
        thread.join()
    assert sorted(outcome) == ["unavailable", "unknown"]


def test_changes_are_told_when_the_database_does_not_confirm_them(place, monkeypatch):
    from sqlalchemy import Connection

    def fail(self):
        raise OperationalError("COMMIT", {}, Exception("gone"))

    monkeypatch.setattr(Connection, "commit", fail)
    with pytest.raises(CuratorUnavailable, match="did not confirm"):
        place.steward.add_group("ward")


def test_an_audit_event_is_a_link(place):
    place.steward.append_audit_event("gateway", "login refused", {"account": "ann"})
    with place.database.read() as connection:
        row = connection.execute(tables.chain.select().order_by(tables.chain.c.position.desc())).first()
    assert (row.kind, json.loads(row.body)["fields"]) == ("audit", {"account": "ann"})
    with pytest.raises(InvalidArgument, match="Leave out"):
        place.steward.append_audit_event("gateway", "long", {"text": "x" * 5000})


def test_the_evidence_has_the_ledger_and_an_entry_for_the_registry(place):
    from privet.ledger import Ledger

    chief = place.steward.add_account("chief", Role.AUDITOR)
    evidence = place.curator.export(chief, DATASET)
    ledger = Ledger.from_json(json.dumps(evidence["ledger"]))
    assert len(ledger) == 2
    assert evidence["certified"]["epsilon"] > 1.0  # rounded up, by what the roundings may add
    assert evidence["certified"]["epsilon"] == pytest.approx(1.0, abs=1e-11)
    assert evidence["certified"]["if_fixed_beforehand"] <= evidence["certified"]["reached"]
    entry = evidence["registry_entry"]["deployment"]
    assert entry["privacy_loss"]["privacy_parameters"] == {"epsilon": 1.0, "delta": 1e-6}
    assert entry["privacy_loss"]["privacy_unit"] == "User-level"
    json.dumps(evidence, allow_nan=False)
    with pytest.raises(InvalidArgument, match="stewards and auditors"):
        place.curator.export(place.ann, DATASET)


def test_a_cap_that_is_given_is_never_dropped_in_silence(place):
    """One cap stands for all names of the same data; another one under a second name would have been ignored."""
    place.steward.add_dataset(
        "second", fingerprint=FINGERPRINT, adjacency=ADJACENCY, cap=Budget(epsilon=1.0, delta=1e-6)
    )
    with pytest.raises(InvalidArgument, match="has the cap ε = 50"):
        place.steward.grant("ann", "second", cap=Budget(epsilon=0.1))
    set_analyst_cap(place.steward, "second", "ann", Budget(epsilon=0.45), reason="less")
    assert [state.epsilon for state in place.curator.budgets(place.ann, "second")] == [1.0, 0.45]
    assert verify_database(place.database).is_sound


def test_a_dataset_that_left_the_stewards_file_does_not_hide_the_others(place, monkeypatch):
    place.steward.add_dataset(
        "gone", fingerprint="gone", adjacency=ADJACENCY, cap=Budget(epsilon=1.0, delta=1e-6)
    )
    place.steward.grant("ann", "gone")
    describe = NumberPlanner.describe

    def refuse(planner, dataset):
        if dataset == "gone":
            raise InvalidArgument("There is no dataset 'gone'. Choose one that you may ask.")
        return describe(planner, dataset)

    monkeypatch.setattr(NumberPlanner, "describe", refuse)
    assert [card.name for card in place.curator.datasets(place.ann)] == [DATASET]


def test_renewed_people_have_a_fresh_budget_and_the_old_ledger_stays(place):
    with pytest.raises(InvalidArgument, match="has a budget already"):
        place.steward.renew_dataset(
            DATASET, fingerprint=FINGERPRINT, cap=Budget(epsilon=1.0), reason="new year"
        )
    place.steward.renew_dataset(DATASET, fingerprint="others", cap=Budget(epsilon=2.0), reason="new year")
    states = place.curator.budgets(place.ann, DATASET)
    assert [state.reached for state in states] == [0.0, 0.0]
    assert states[0].epsilon == 2.0
    assert verify_database(place.database).is_sound


def test_an_event_that_no_theorem_covers_is_refused(place, monkeypatch):
    from privet.curator.plans import PlannedQuestion
    from privet.events import Poisson
    from privet.ledger import Entry

    event = Poisson(0.5, DiscreteGaussian(1e-9, 1))
    planned = PlannedQuestion(
        key="k",
        canonical={},
        adjacency=ADJACENCY,
        entries=(Entry("x", event),),
        epsilon=1.0,
        delta=0.0,
        answers=(),
    )
    monkeypatch.setattr(NumberPlanner, "plan", lambda *_: planned)
    with pytest.raises(BudgetExceeded):
        place.ask(1, "new")


def test_the_harness_counts_what_is_wrong(place):
    """Answers that nobody charged, that the database lost, and that were given twice."""
    account, first = place.ann.account, place.records[0]
    real = SeenAnswer(account=account, key="key 0", number=0, record=first.id, value=first.answer["value"])

    def judge(*seen, **more):
        counts, _ = judge_round(place.database, place.heads._path, place.draws, seen, caps={}, **more)
        return counts

    place.heads.close()
    assert judge(real).is_sound
    assert judge(real, real).is_sound  # told twice the same
    unknown = SeenAnswer(account=account, key="k", number=9, record="f" * 32, value=1)
    assert (judge(unknown).uncharged_answers, judge(unknown).lost_answers) == (1, 1)
    other = SeenAnswer(account=account, key="key 0", number=0, record=first.id, value=1)
    assert judge(other).lost_answers == 1
    assert judge(real, other).doubled_answers == 2  # of the request, and of the question
    place.draws.write_text(place.draws.read_text() + f"{first.id} 5\n{'e' * 32} 6\n")
    assert (judge(real).doubled_answers, judge(real).uncharged_answers) == (1, 1)
    assert judge(real, errors={(account, "key 0")}).broken == 1
    assert (
        judge_round(place.database, place.heads._path, place.draws, [], caps={1: Fraction(1, 50)})[
            0
        ].overspends
        == 1
    )
    with place.database.write() as connection:
        connection.execute(update(tables.budgets).values(measure=0))
    assert judge(real).chain_problems > 0


def test_a_curator_that_is_killed_gives_nothing_that_is_not_charged(tmp_path):
    report = run_selftest(f"sqlite:///{tmp_path}/curator.db", kills=10, analysts=4, seed=1)
    assert report.kills == 10
    assert report.answers > 0
    assert report.is_sound, report.to_json()
    assert list(tmp_path.iterdir()) == []


def test_the_harness_refuses_to_do_nothing(tmp_path):
    with pytest.raises(InvalidArgument, match="at least 1"):
        run_selftest(str(tmp_path / "x.db"), kills=0)
