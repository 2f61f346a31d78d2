"""The curator on PostgreSQL: the same protocol, the same refusals, and a server that must keep its promises."""

import threading
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy")
pytest.importorskip("psycopg")

from sqlalchemy import delete, text, update
from sqlalchemy.exc import IntegrityError

from privet.curator.refusals import CuratorUnavailable
from privet.curator.selftest import ScratchServer, run_selftest, start_postgres
from privet.curator.selftest.scratch import ScratchSchema
from privet.curator.selftest.toys import ADJACENCY, DATASET, FINGERPRINT, DrawingWorker, NumberPlanner
from privet.curator.service import AnswerStatus
from privet.curator.storage import DatabaseCurator, HeadFile, Stewardship, open_engine, tables
from privet.curator.storage.verification import verify_database
from privet.errors import BudgetExceeded, InvalidArgument, MissingPackage
from privet.releasing.budget import Budget


@pytest.fixture(scope="module")
def server():
    try:
        with start_postgres() as server:
            yield server
    except MissingPackage as missing:
        pytest.skip(str(missing))


def test_the_protocol_on_postgresql(server, tmp_path):
    scratch = ScratchSchema(server.address)
    address = scratch.open()

    def open_curator():
        return DatabaseCurator.open(
            address,
            planner=NumberPlanner(),
            worker=DrawingWorker(tmp_path / "draws"),
            heads=HeadFile(tmp_path / "head"),
        )

    curator = open_curator()
    steward = Stewardship(curator.database, curator.heads)
    steward.add_dataset(DATASET, fingerprint=FINGERPRINT, adjacency=ADJACENCY, cap=Budget(epsilon=0.1))
    steward.add_group("ward")
    people = [steward.add_analyst(name, group="ward") for name in ("ann", "bob", "eve")]
    for name in ("ann", "bob", "eve"):
        steward.grant(name, DATASET)
    steward.cap_group("ward", DATASET, cap=Budget(epsilon=0.2))
    answered, refused = [], []

    def work(who, start):
        for number in range(start, start + 12, 2):  # ε = 1/50 each: five fit
            try:
                answered.append(curator.ask(who, DATASET, {"number": number}, idempotency_key=f"k{number}"))
            except BudgetExceeded:
                refused.append(number)

    threads = [threading.Thread(target=work, args=(who, 100 * place)) for place, who in enumerate(people)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(answered), len(refused)) == (5, 13)
    assert {record.status for record in answered} == {AnswerStatus.ANSWERED}
    again = curator.ask(people[0], DATASET, dict(answered[0].question), idempotency_key="again")
    assert again.answer == answered[0].answer
    with pytest.raises(IntegrityError, match="ck_budgets"), curator.database.write() as connection:
        connection.execute(update(tables.budgets).values(largest=tables.budgets.c.largest_cap + 1))
    for act in (update(tables.chain).values(body="{}"), delete(tables.charges)):
        with pytest.raises(CuratorUnavailable), curator.database.write() as connection:
            connection.execute(act)
    curator.close()
    curator = open_curator()
    assert verify_database(curator.database, curator.heads).problems == ()
    curator.close()
    scratch.drop()


def test_a_server_that_may_lose_a_commit_is_refused(server, tmp_path):
    asynchronous = f"{server.address}&options=-csynchronous_commit%3Doff"
    with pytest.raises(InvalidArgument, match="synchronous_commit on, got on, on and off"):
        open_engine(asynchronous).connect()
    scratch = ScratchSchema(server.address)
    curator = DatabaseCurator.open(
        scratch.open(),
        planner=NumberPlanner(),
        worker=DrawingWorker(tmp_path / "draws"),
        heads=HeadFile(tmp_path / "head"),
    )
    steward = Stewardship(curator.database, curator.heads)
    steward.add_dataset(DATASET, fingerprint=FINGERPRINT, adjacency=ADJACENCY, cap=Budget(epsilon=0.1))
    ann = steward.add_analyst("ann")
    steward.grant("ann", DATASET)
    admin = open_engine(server.address).execution_options(isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        try:
            _switch(connection, "ALTER SYSTEM SET fsync = off", "off")
            with pytest.raises(InvalidArgument, match="fsync"):  # while it runs: nothing is spent
                curator.ask(ann, DATASET, {"number": 1}, idempotency_key="k")
            with pytest.raises(InvalidArgument, match="fsync"):
                open_engine(server.address).connect()
        finally:
            _switch(connection, "ALTER SYSTEM SET fsync = on", "on")
    assert curator.ask(ann, DATASET, {"number": 1}, idempotency_key="k").status is AnswerStatus.ANSWERED
    curator.close()
    admin.dispose()
    scratch.drop()


def _switch(connection, statement, wanted):
    connection.execute(text(statement))
    connection.execute(text("SELECT pg_reload_conf()"))
    for _ in range(1000):
        if connection.execute(text("SHOW fsync")).scalar() == wanted:
            return
    raise AssertionError("the setting does not arrive")


@pytest.mark.slow
def test_a_curator_on_a_server_that_is_killed_loses_nothing(tmp_path):
    if not Path("/usr/lib/postgresql").exists():
        pytest.skip("PostgreSQL is not installed")
    with start_postgres() as own:
        report = run_selftest(own.address, kills=60, analysts=16, scratch=ScratchServer(own), seed=2)
    assert report.kills_by_target["database"] > 0
    assert report.is_sound, report.to_json()


@pytest.mark.slow
def test_the_selftest_of_a_configured_server_leaves_nothing_behind(server):
    report = run_selftest(server.address, kills=3, analysts=2, seed=3)
    assert report.is_sound, report.to_json()
    engine = open_engine(server.address)
    with engine.connect() as connection:
        found = connection.execute(
            text("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'privet_selftest%'")
        ).scalar()
    engine.dispose()
    assert found == 0
