"""A curator in memory, for tests of what stands in front of it: real plans and prices, no database, no worker."""

import secrets
import warnings
from dataclasses import replace
from datetime import UTC, datetime

import polars as pl

from privet.adjacency import AddRemove, Unit
from privet.curator.accounts import (
    AccountDirectory,
    BudgetRequests,
    Credentials,
    LoginSessions,
    ProgramKeys,
    open_accounts,
)
from privet.curator.accounts.openid import OpenIdLogin
from privet.curator.gateway.application import make_application
from privet.curator.gateway.parts import GatewayParts, StewardActions
from privet.curator.gateway.settings import GatewaySettings
from privet.curator.principals import Principal, Role
from privet.curator.service import (
    AnswerRecord,
    AnswerStatus,
    BudgetState,
    CuratorService,
    DatasetCard,
    QuoteCard,
    Scope,
)
from privet.errors import BudgetExceeded, InvalidArgument
from privet.lineage import canonical
from privet.releasing import (
    Budget,
    Count,
    GroupBy,
    Histogram,
    Mean,
    MemoryStore,
    Quantile,
    ReleasePlan,
    Sum,
    answer_to_plain,
)

with warnings.catch_warnings():  # it uses a name that anyio has renamed
    warnings.simplefilter("ignore", DeprecationWarning)
    from starlette.testclient import TestClient

COUNT = {"version": 1, "statistics": [{"kind": "count"}], "epsilon": 0.1}
PASSWORD = "correct-horse-battery"
ANN = Principal(account=1, name="ann", role=Role.ANALYST)
BOB = Principal(account=2, name="bob", role=Role.ANALYST)
STEWARD = Principal(account=3, name="stella", role=Role.STEWARD)
AUDITOR = Principal(account=4, name="otto", role=Role.AUDITOR)
PEOPLE = (ANN, BOB, STEWARD, AUDITOR)
WARDS = ("surgery", "medicine", "children")
COLUMNS = [
    {
        "name": "age",
        "type": "whole",
        "lower": 0,
        "upper": 120,
        "keys": None,
        "filter": True,
        "description": "",
    },
    {
        "name": "ward",
        "type": "text",
        "lower": None,
        "upper": None,
        "keys": list(WARDS),
        "filter": True,
        "description": "where the <b>person</b> lay",
    },
]
METADATA = {
    "name": "visits", "description": "Visits", "unit": None, "adjacency": str(AddRemove(Unit.RECORD)), "columns": COLUMNS,
    "contribution": {"rows": 1, "groups": 1}, "kinds": ["count", "mean", "sum", "quantile", "histogram"], "limits": {"epsilon": 1.0},
}  # fmt: skip


class Directory(AccountDirectory):
    def find_account(self, name):
        return next((one for one in PEOPLE if one.name == name), None)

    def find_number(self, number):
        return next((one for one in PEOPLE if one.account == number), None)


class Actions(StewardActions):
    def __init__(self):
        self.events = []

    def grant(self, who, dataset, analyst, *, epsilon, delta, reason):
        self.events.append((who.name, "grant", {"dataset": dataset, "analyst": analyst, "epsilon": epsilon}))

    def verify(self, who):
        return {"chain_ok": True, "entries": 3}

    def note(self, who, kind, fields):
        self.events.append((None if who is None else who.name, kind, dict(fields)))


class MemoryCurator(CuratorService):
    """One dataset of a hundred people, a cap for everybody and one for each analyst."""

    def __init__(self, rows=100, cap=2.0):
        self.table = pl.DataFrame(
            {"age": [20 + n % 60 for n in range(rows)], "ward": [WARDS[n % 3] for n in range(rows)]}
        )
        self.cap, self.records, self.keys, self.spent = cap, [], {}, 0.0
        self.fails = False

    def _plan(self, question):
        if (
            set(question) - {"version", "statistics", "epsilon", "delta", "where"}
            or question.get("version") != 1
        ):
            raise InvalidArgument("The question has a field that it must not have. Take it out.")
        epsilon = question.get("epsilon")
        if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 < epsilon <= 1:
            raise InvalidArgument("'epsilon' must be above 0 and at most 1. Give 0.1, say.")
        statistics = question.get("statistics")
        if not isinstance(statistics, list) or not 1 <= len(statistics) <= 5:
            raise InvalidArgument("'statistics' must be a list of one to five. Give one.")
        made = []
        for number, one in enumerate(statistics):
            kind = one.get("kind") if isinstance(one, dict) else None
            match kind, one.get("column") if isinstance(one, dict) else None:
                case "count", _:
                    statistic = Count()
                case "mean", "age":
                    statistic = Mean("age", 0, 120)
                case "sum", "age":
                    statistic = Sum("age", 0, 120)
                case "quantile", "age":
                    statistic = Quantile("age", 0.5, 0, 120)
                case "histogram", "ward":
                    statistic = Histogram("ward", WARDS)
                case _:
                    raise InvalidArgument("A statistic must be one that this dataset allows. Choose another.")
            if one.get("by") == ["ward"]:
                statistic = GroupBy("ward", statistic, WARDS)
            made.append((f"{kind} {number}" if number else kind, statistic))
        return ReleasePlan(statistics=tuple(made), unit=None, budget=Budget(epsilon=float(epsilon)))

    def _state(self, more=0.0):
        reached = self.spent + more
        dataset = BudgetState(
            scope=Scope.DATASET,
            name="visits",
            epsilon=self.cap,
            delta=0.0,
            reached=reached,
            remaining=max(self.cap - reached, 0.0),
            filter_name="basic composition",
        )
        return (
            dataset,
            replace(dataset, scope=Scope.ANALYST, name="ann", epsilon=1.0, remaining=max(1 - reached, 0.0)),
        )

    def _check(self, dataset):
        if dataset != "visits":
            raise InvalidArgument("There is no such dataset. Choose another.")

    def datasets(self, who):
        return (
            DatasetCard(
                name="visits", description="Visits to a ward.", metadata=METADATA, budgets=self._state()
            ),
        )

    def quote(self, who, dataset, question):
        self._check(dataset)
        quotes = self._plan(question).quote()
        epsilon = float(question["epsilon"])
        answers = tuple(
            {
                "label": q.label,
                "error": q.error,
                "error_kind": str(q.error_kind),
                "epsilon": q.cost.epsilon,
                "delta": 0.0,
            }
            for q in quotes
        )
        stored = self._stored(question) is not None
        return QuoteCard(
            dataset=dataset,
            question=question,
            epsilon=0.0 if stored else epsilon,
            delta=0.0,
            answers=answers,
            stored=stored,
            affordable=self.spent + epsilon <= self.cap,
            budgets=self._state(epsilon),
            caveats=("The noise is drawn from the operating system.",),
        )

    def _stored(self, question):
        return next(
            (
                r
                for r in self.records
                if r.answer is not None and canonical(dict(r.question)) == canonical(question)
            ),
            None,
        )

    def ask(self, who, dataset, question, *, idempotency_key):
        self._check(dataset)
        plan = self._plan(question)
        if (who.account, idempotency_key) in self.keys:
            return self.keys[who.account, idempotency_key]
        known, epsilon = self._stored(question), float(question["epsilon"])
        fields = {
            "id": secrets.token_hex(8),
            "dataset": dataset,
            "analyst": who.name,
            "question": question,
            "asked_at": datetime.now(UTC),
            "epsilon": epsilon,
            "delta": 0.0,
            "chain_position": len(self.records) + 1,
        }
        if known is not None:
            record = AnswerRecord(**fields, status=AnswerStatus.ANSWERED, answer=known.answer, stored=True)
        else:
            if self.spent + epsilon > self.cap + 1e-12:
                raise BudgetExceeded(
                    "The cap does not allow this question, and nothing was spent. Ask for less."
                )
            self.spent += epsilon
            if self.fails:
                record = AnswerRecord(**fields, status=AnswerStatus.FAILED, answer=None, stored=False)
            else:
                released = plan.run(self.table, store=MemoryStore(plan.relation, budget=None))
                plain = {
                    "answers": [
                        {"label": answer.label, **answer_to_plain(answer)} for answer in released.answers
                    ]
                }
                record = AnswerRecord(**fields, status=AnswerStatus.ANSWERED, answer=plain, stored=False)
        self.records.append(record)
        self.keys[who.account, idempotency_key] = record
        return record

    def record(self, who, record_id):
        for record in self.records:
            if record.id == record_id and (who.role is not Role.ANALYST or record.analyst == who.name):
                return record
        raise InvalidArgument("There is no such record that you may see. Look into the history.")

    def history(self, who, *, dataset=None, limit=50, before=None):
        seen = [
            r
            for r in reversed(self.records)
            if (dataset in (None, r.dataset)) and (who.role is not Role.ANALYST or r.analyst == who.name)
        ]
        if before is not None:
            places = [place for place, r in enumerate(seen) if r.id == before]
            if not places:
                raise InvalidArgument("'before' must be the id of a record. Take it from the history.")
            seen = seen[places[0] + 1 :]
        return tuple(seen[:limit])

    def budgets(self, who, dataset):
        self._check(dataset)
        return self._state()

    def export(self, who, dataset):
        self._check(dataset)
        return {"ledger": {"entries": len(self.records)}, "head": "00", "registry_entry": {"name": dataset}}


class Gateway:
    """A gateway over a curator in memory, with an account and a key for everybody."""

    def __init__(self, folder, *, openid=None, **settings):
        engine, directory = open_accounts(f"sqlite:///{folder}/accounts.db"), Directory()
        self.engine, self.service, self.actions = engine, MemoryCurator(), Actions()
        self.parts = GatewayParts(
            service=self.service,
            actions=self.actions,
            credentials=Credentials(engine, directory),
            keys=ProgramKeys(engine, directory),
            sessions=LoginSessions(engine, directory),
            requests=BudgetRequests(engine),
            settings=GatewaySettings(**{"requests_per_minute": 10**6} | settings),
            openid=None if openid is None else OpenIdLogin(engine, openid),
        )
        self.application = make_application(self.parts)
        self.http = TestClient(self.application, base_url="http://127.0.0.1", raise_server_exceptions=False)
        self.keys = {}

    def key(self, who):
        if who not in self.keys:
            self.keys[who] = self.parts.keys.issue(who.account, label="a test")
        return self.keys[who]

    def headers(self, who, more=None):
        return {"authorization": f"Bearer {self.key(who)}"} | (more or {})

    def get(self, who, path):
        return self.http.get(f"/api/v1{path}", headers=self.headers(who))

    def post(self, who, path, body, **more):
        return self.http.post(f"/api/v1{path}", json=body, headers=self.headers(who, more))

    def ask(self, who, question, key):
        return self.post(who, "/datasets/visits/ask", {"question": question}, **{"idempotency-key": key})
