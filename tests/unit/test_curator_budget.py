"""The curator over a database: charged once, never beyond a cap, the same answer to the same question, across restarts."""

import secrets
import threading

import pytest

pytest.importorskip("sqlalchemy")
pytest.importorskip("alembic")

from privet.adjacency import AddRemove, ReplaceOne
from privet.curator.plans import AnswerWorker, PlannedQuestion, QuestionPlanner
from privet.curator.principals import Role
from privet.curator.refresh import RefreshPolicy
from privet.curator.refusals import CuratorReadOnly, CuratorUnavailable
from privet.curator.service import AnswerStatus, Scope
from privet.curator.storage import DatabaseCurator, HeadFile, Stewardship
from privet.curator.storage.verification import verify_database
from privet.errors import BudgetExceeded, InvalidArgument
from privet.events import DiscreteLaplace
from privet.ledger import Entry
from privet.releasing.budget import Budget


class Planner(QuestionPlanner):
    """A count at ε = 0.1, whatever is asked."""

    def plan(self, dataset, question):
        entry = Entry("count", DiscreteLaplace(10.0, 1))
        return PlannedQuestion(
            key=f"{dataset} {question}",
            canonical=dict(question),
            adjacency=AddRemove(),
            entries=(entry,),
            epsilon=0.1,
            delta=0.0,
            answers=({"label": "count", "error": 30.0},),
        )

    def describe(self, dataset):
        return {"description": f"about {dataset}"}


class Worker(AnswerWorker):
    """A fresh number for each question; ``fails`` makes it fail."""

    def __init__(self):
        self.content, self.fails, self.asked = "content", False, []

    def answer(self, dataset, planned, *, request):
        self.asked.append(request)
        if self.fails:
            raise RuntimeError("row 17: Alice")
        return {"answers": [{"label": "count", "value": secrets.randbits(40)}]}

    def fingerprint(self, dataset):
        return self.content


class House:
    """A curator of one dataset with ε = 1, two analysts in a group, a steward."""

    def __init__(self, folder):
        self.folder, self.worker = folder, Worker()
        self.curator = self.open()
        self.steward = Stewardship(self.curator.database, self.curator.heads)
        self.steward.add_dataset(
            "visits", fingerprint="content", adjacency=AddRemove(), cap=Budget(epsilon=1.0)
        )
        self.steward.add_group("ward")
        self.ann = self.steward.add_analyst("ann", group="ward")
        self.bob = self.steward.add_analyst("bob", group="ward")
        self.eve = self.steward.add_analyst("eve")
        self.chief = self.steward.add_account("chief", Role.STEWARD)
        self.steward.grant("ann", "visits", cap=Budget(epsilon=0.5))
        self.steward.grant("bob", "visits")

    def open(self):
        return DatabaseCurator.open(
            f"sqlite:///{self.folder}/curator.db",
            planner=Planner(),
            worker=self.worker,
            heads=HeadFile(self.folder / "head"),
        )

    def restart(self):
        self.curator.close()
        self.curator = self.open()
        self.steward = Stewardship(self.curator.database, self.curator.heads)

    def ask(self, who, number, key=None):
        return self.curator.ask(who, "visits", {"n": number}, idempotency_key=key or secrets.token_hex(8))


@pytest.fixture
def house(tmp_path):
    house = House(tmp_path)
    yield house
    assert verify_database(house.curator.database, house.curator.heads).problems == ()
    house.curator.close()


def reached(house, scope=Scope.DATASET):
    return next(b.reached for b in house.curator.budgets(house.chief, "visits") if b.scope is scope)


def test_a_question_is_quoted_then_charged_then_answered(house):
    quote = house.curator.quote(house.ann, "visits", {"n": 1})
    assert (quote.epsilon, quote.stored, quote.affordable) == (0.1, False, True)
    assert [b.scope for b in quote.budgets] == [Scope.DATASET, Scope.ANALYST]
    assert reached(house) == 0.0
    record = house.ask(house.ann, 1)
    assert record.status is AnswerStatus.ANSWERED
    assert record.filter_name == "basic composition"
    assert reached(house) == pytest.approx(0.1, rel=1e-9)
    assert reached(house) >= 0.1
    assert house.curator.record(house.ann, record.id) == record
    assert house.curator.quote(house.bob, "visits", {"n": 1}).stored


def test_the_same_question_has_one_answer_at_no_cost_also_after_a_restart(house):
    first = house.ask(house.ann, 1)
    for _ in range(2):
        again, other = house.ask(house.ann, 1), house.ask(house.bob, 1)
        assert again.id == first.id
        assert again.stored
        assert other.stored
        assert other.epsilon == 0.0
        assert first.answer == again.answer == other.answer
        house.restart()
    assert len(house.worker.asked) == 1
    assert reached(house) == pytest.approx(0.1, rel=1e-9)


def test_an_idempotency_key_is_charged_once_and_belongs_to_one_question(house):
    assert house.ask(house.ann, 1, "key") == house.ask(house.ann, 1, "key")
    with pytest.raises(InvalidArgument, match="take a new key"):
        house.ask(house.ann, 2, "key")
    assert reached(house) == pytest.approx(0.1, rel=1e-9)


def test_no_cap_is_passed(house):
    for number in range(5):
        house.ask(house.ann, number)
    with pytest.raises(BudgetExceeded, match="analyst 'ann'"):
        house.ask(house.ann, 5)
    for number in range(5, 10):
        house.ask(house.bob, number)
    with pytest.raises(BudgetExceeded, match="dataset 'visits'"):
        house.ask(house.bob, 10)
    assert reached(house) <= 1.0
    assert len(house.worker.asked) == 10


def test_a_failure_after_the_charge_is_one_record_and_no_text(house):
    house.worker.fails = True
    record = house.ask(house.ann, 1, "key")
    assert (record.status, record.answer) == (AnswerStatus.FAILED, None)
    assert "Alice" not in repr(record)
    house.worker.fails = False
    assert house.ask(house.ann, 1, "key").status is AnswerStatus.FAILED
    assert reached(house) == pytest.approx(0.1, rel=1e-9)
    assert house.ask(house.ann, 1).status is AnswerStatus.ANSWERED  # a new request, and a new charge
    assert reached(house) == pytest.approx(0.2, rel=1e-9)


def test_who_may_not_ask_is_told_what_is_told_of_a_dataset_that_is_not_there(house):
    with pytest.raises(InvalidArgument) as refused:
        house.ask(house.eve, 1)
    with pytest.raises(InvalidArgument) as missing:
        house.curator.ask(house.eve, "nothing", {"n": 1}, idempotency_key="k")
    assert str(refused.value).replace("visits", "nothing") == str(missing.value)
    with pytest.raises(InvalidArgument, match="Only analysts"):
        house.ask(house.chief, 1)
    record = house.ask(house.ann, 1)
    with pytest.raises(InvalidArgument, match="history"):
        house.curator.record(house.bob, record.id)
    assert [r.id for r in house.curator.history(house.chief)] == [record.id]
    assert house.curator.history(house.bob) == ()


def test_many_threads_never_overspend(house):
    answered, refused = [], []

    def work(who, start):
        for number in range(start, start + 6):
            try:
                answered.append(house.ask(who, number))
            except BudgetExceeded:
                refused.append(number)

    threads = [threading.Thread(target=work, args=(house.bob, 10 * i)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(answered), len(refused)) == (10, 26)
    assert reached(house) <= 1.0


def test_one_question_from_many_threads_is_charged_once(house):
    records = []
    threads = [
        threading.Thread(target=lambda who=who: records.append(house.ask(who, 1)))
        for who in [house.ann, house.bob] * 4
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({str(record.answer) for record in records}) == 1
    assert len(house.worker.asked) == 1
    assert reached(house) == pytest.approx(0.1, rel=1e-9)


def test_reservations_of_a_run_that_died_have_failed_and_are_charged(house):
    died = threading.Event()

    def die(*_, **__):
        died.set()
        raise SystemExit  # as a kill would, without a word to the database

    house.worker.answer, before = die, house.worker.answer
    house.curator._fail = lambda *_: None
    with pytest.raises(SystemExit):
        house.ask(house.ann, 1, "key")
    assert [r.status for r in house.curator.history(house.ann)] == [AnswerStatus.RESERVED]
    house.worker.answer = before
    house.restart()
    assert house.ask(house.ann, 1, "key").status is AnswerStatus.FAILED
    assert reached(house) == pytest.approx(0.1, rel=1e-9)


def test_a_restored_backup_is_read_only_until_a_steward_says_otherwise(house):
    house.ask(house.ann, 1)
    house.curator.close()
    backup = (house.folder / "curator.db").read_bytes()
    house.curator = house.open()
    house.ask(house.ann, 2)
    house.curator.close()
    (house.folder / "curator.db").write_bytes(backup)
    house.curator = house.open()
    assert house.curator.read_only
    assert house.ask(house.ann, 1).stored  # what was answered costs nothing, and may be read
    with pytest.raises(CuratorReadOnly, match="backup"):
        house.ask(house.ann, 2)
    house.steward = Stewardship(house.curator.database, house.curator.heads, by="chief")
    house.steward.accept_head(reason="the disk was replaced; nothing was asked after the backup")
    house.restart()
    assert not house.curator.read_only
    assert house.ask(house.ann, 2).status is AnswerStatus.ANSWERED


def test_a_lost_head_file_is_noticed(house):
    (house.folder / "head").unlink()
    house.restart()
    assert house.curator.read_only


def test_a_budget_goes_with_its_data_and_not_with_a_name(house):
    house.ask(house.ann, 1)
    with pytest.raises(InvalidArgument, match="have the cap"):
        house.steward.add_dataset(
            "copy", fingerprint="content", adjacency=AddRemove(), cap=Budget(epsilon=2.0)
        )
    with pytest.raises(InvalidArgument, match="have a budget for"):
        house.steward.add_dataset(
            "copy", fingerprint="content", adjacency=ReplaceOne(), cap=Budget(epsilon=1.0)
        )
    house.steward.add_dataset("copy", fingerprint="content", adjacency=AddRemove(), cap=Budget(epsilon=1.0))
    house.steward.grant("bob", "copy")
    assert house.curator.budgets(house.bob, "copy")[0].reached == pytest.approx(0.1, rel=1e-9)


def test_other_content_is_refused_or_goes_on_with_the_budget(house):
    house.worker.content = "changed"
    assert house.ask(house.ann, 1).status is AnswerStatus.FAILED  # frozen: charged, and not answered
    assert house.worker.asked == []
    with pytest.raises(InvalidArgument, match="frozen"):
        house.steward.refresh_dataset("visits", fingerprint="changed")
    house.steward.add_dataset(
        "daily",
        fingerprint="monday",
        adjacency=AddRemove(),
        cap=Budget(epsilon=1.0),
        refresh=RefreshPolicy.SAME_PEOPLE,
    )
    house.steward.grant("ann", "daily")
    house.worker.content = "monday"
    one = house.curator.ask(house.ann, "daily", {"n": 1}, idempotency_key="1")
    house.worker.content = "tuesday"
    two = house.curator.ask(house.ann, "daily", {"n": 2}, idempotency_key="2")
    again = house.curator.ask(house.ann, "daily", {"n": 1}, idempotency_key="3")
    assert AnswerStatus.FAILED not in (one.status, two.status, again.status)
    assert again.answer != one.answer  # other data have another answer
    assert house.curator.budgets(house.ann, "daily")[0].reached == pytest.approx(0.3, rel=1e-9)


def test_a_cap_that_changes_after_an_answer_is_late(house):
    for number in range(3):
        house.ask(house.bob, number)
    with pytest.raises(BudgetExceeded, match="cannot be taken back"):
        house.steward.change_cap("visits", cap=Budget(epsilon=0.2), reason="less")
    house.steward.change_cap("visits", cap=Budget(epsilon=2.0, delta=1e-6), reason="a longer study")
    evidence = house.curator.export(house.chief, "visits")
    assert evidence["caps"][0]["late"]
    assert evidence["ledger"]["changes"][0]["reason"] == "a longer study"
    assert evidence["ledger"]["changes"][0]["place"] == 3
    assert evidence["questions"] == 3
    assert house.ask(house.bob, 7).filter_name == "Rényi"


def test_the_database_itself_refuses_to_overspend_and_to_forget(house):
    from sqlalchemy import delete, update
    from sqlalchemy.exc import IntegrityError

    from privet.curator.storage import tables

    house.ask(house.ann, 1)
    with pytest.raises(IntegrityError, match="ck_budgets"), house.curator.database.write() as connection:
        connection.execute(update(tables.budgets).values(largest=tables.budgets.c.largest_cap + 1))
    for act in (update(tables.chain).values(body="{}"), delete(tables.chain), delete(tables.charges)):
        with pytest.raises(IntegrityError, match="append-only"), house.curator.database.write() as connection:
            connection.execute(act)
    assert reached(house) == pytest.approx(0.1, rel=1e-9)


def test_a_second_curator_that_starts_takes_the_answer_away_and_doubles_nothing(house):
    """The first one still runs its mechanism; what it draws is never released."""
    answer = house.worker.answer

    def start_another(*arguments, **named):
        other = house.open()  # its recovery declares what is reserved as failed
        other.close()
        return answer(*arguments, **named)

    house.worker.answer = start_another
    record = house.ask(house.ann, 1, "key")
    assert (record.status, record.answer) == (AnswerStatus.FAILED, None)
    house.worker.answer = answer
    assert house.ask(house.ann, 1, "key").status is AnswerStatus.FAILED
    assert reached(house) == pytest.approx(0.1, rel=1e-9)


def test_a_planner_or_a_database_that_breaks_spends_nothing(house, monkeypatch):
    def fail(*_):
        raise KeyError("secret of row 17")

    monkeypatch.setattr(Planner, "plan", fail)
    with pytest.raises(CuratorUnavailable, match="Nothing was spent") as refused:
        house.ask(house.ann, 1)
    assert "row 17" not in str(refused.value)
    assert refused.value.__cause__ is None
    monkeypatch.undo()
    monkeypatch.setattr("privet.curator.storage.database_curator.reserve", fail)
    with pytest.raises(CuratorUnavailable, match="Nothing was spent"):
        house.ask(house.ann, 1)
    monkeypatch.undo()
    assert reached(house) == 0.0


def test_an_answer_that_is_no_json_is_a_failure(house):
    house.worker.answer = lambda *_, **__: {"value": float("nan")}
    assert house.ask(house.ann, 1).status is AnswerStatus.FAILED
    house.worker.answer = lambda *_, **__: {"value": object()}
    assert house.ask(house.ann, 2).status is AnswerStatus.FAILED
    assert reached(house) == pytest.approx(0.2, rel=1e-9)


def test_history_pages_from_the_newest(house):
    for number in range(5):
        house.ask(house.bob, number)
    first = house.curator.history(house.bob, dataset="visits", limit=2)
    second = house.curator.history(house.bob, limit=2, before=first[-1].id)
    assert [record.question["n"] for record in (*first, *second)] == [4, 3, 2, 1]
    with pytest.raises(InvalidArgument, match="between 1 and 1000"):
        house.curator.history(house.bob, limit=0)


def test_a_closed_account_asks_nothing(house):
    house.steward.close_account("ann")
    assert house.steward.find_account("ann") is None
    assert house.steward.find_account_by_number(house.ann.account) is None
    assert {card.principal.name: card.closed for card in house.steward.list_accounts()}["ann"]
    with pytest.raises(InvalidArgument, match="closed"):
        house.ask(house.ann, 1)


@pytest.mark.parametrize("key", ["", "x" * 201, "a\nb"])
def test_an_idempotency_key_is_short_and_printable(house, key):
    with pytest.raises(InvalidArgument, match="fresh UUID"):
        house.curator.ask(house.ann, "visits", {"n": 1}, idempotency_key=key)


def test_a_question_under_another_adjacency_is_refused(house):
    house.steward.add_dataset("swap", fingerprint="swap", adjacency=ReplaceOne(), cap=Budget(epsilon=1.0))
    house.steward.grant("ann", "swap")
    house.worker.content = "swap"
    with pytest.raises(InvalidArgument, match="replace-one"):
        house.curator.ask(house.ann, "swap", {"n": 1}, idempotency_key="k")


def test_stewards_are_told_what_is_wrong(house):
    steward = house.steward
    for act, words in (
        (
            lambda: steward.add_dataset(
                "visits", fingerprint="x", adjacency=AddRemove(), cap=Budget(epsilon=1.0)
            ),
            "already",
        ),
        (lambda: steward.add_analyst("ann"), "there already"),
        (lambda: steward.add_analyst(""), "printable"),
        (lambda: steward.add_analyst("new", group="nobody"), "no group"),
        (lambda: steward.grant("nobody", "visits"), "no open account"),
        (lambda: steward.grant("eve", "nothing"), "no dataset"),
        (lambda: steward.grant("ann", "visits"), "there already"),
        (lambda: steward.change_cap("visits", cap=Budget(epsilon=2.0), reason=" "), "Say why"),
        (
            lambda: steward.change_cap("visits", cap=Budget(epsilon=2.0), reason="r", analyst="bob"),
            "no such cap",
        ),
        (
            lambda: steward.change_cap("visits", cap=Budget(epsilon=2.0), reason="r", analyst="a", group="b"),
            "one cap",
        ),
        (lambda: steward.refresh_dataset("nothing", fingerprint="x"), "no dataset"),
    ):
        with pytest.raises(InvalidArgument, match=words):
            act()
    steward.declare_dataset("visits", fingerprint="content", adjacency=AddRemove(), cap=Budget(epsilon=1.0))
    with pytest.raises(InvalidArgument, match="change the cap with a reason"):
        steward.declare_dataset(
            "visits", fingerprint="content", adjacency=AddRemove(), cap=Budget(epsilon=3.0)
        )
    steward.declare_dataset("other", fingerprint="other", adjacency=AddRemove(), cap=Budget(epsilon=3.0))
    assert [card.name for card in house.curator.datasets(house.chief)] == ["other", "visits"]
    assert [card.description for card in house.curator.datasets(house.ann)] == ["about visits"]
