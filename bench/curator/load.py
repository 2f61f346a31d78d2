"""How long a charge takes, and whether it takes longer when there is a history: python bench/curator/load.py [--seconds 30] [--rate 50]

Three measurements: charges at a steady rate from a second process, on a disk with fsync (the time of fsync alone stands beside it);
the processor time of one request after 10, 1,000 and 100,000 charges; and the verification of 100,000 charges.
"""

import argparse
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from sqlalchemy import insert, update

from privet.curator.principals import Principal, Role
from privet.curator.selftest.sockets import LineClient, serve_lines
from privet.curator.selftest.toys import ADJACENCY, DATASET, FINGERPRINT, DrawingWorker, NumberPlanner
from privet.curator.service import Scope
from privet.curator.storage import DatabaseCurator, HeadFile, Stewardship, tables
from privet.curator.storage.chain import ChainLink, digest_link, read_head, time_now
from privet.curator.storage.rules import fix_filter, price
from privet.curator.storage.verification import verify_database
from privet.lineage import canonical
from privet.releasing.budget import Budget

HISTORIES = (10, 1_000, 100_000)
CAP = Budget(epsilon=5000.0, delta=1e-6)


def open_curator(folder):
    return DatabaseCurator.open(
        f"sqlite:///{folder}/curator.db",
        planner=NumberPlanner(),
        worker=DrawingWorker(folder / "draws"),
        heads=HeadFile(folder / "head"),
    )


def fill(folder):
    """A curator with one analyst, who has a cap, in a group that has one."""
    curator = open_curator(folder)
    steward = Stewardship(curator.database, curator.heads)
    steward.add_dataset(DATASET, fingerprint=FINGERPRINT, adjacency=ADJACENCY, cap=CAP)
    steward.add_group("group")
    who = steward.add_analyst("analyst", group="group")
    steward.grant("analyst", DATASET, cap=CAP)
    steward.cap_group("group", DATASET, cap=CAP)
    return curator, who


def add_history(curator, who, charges):
    """So many answered charges, as the protocol writes them, in one transaction."""
    rule, planner = fix_filter(CAP), NumberPlanner()
    records, paid, links = [], [], []
    with curator.database.write() as connection:
        head = read_head(connection, lock=True)
        start, position, digest = head.links, head.links, head.digest
        budgets = connection.execute(tables.budgets.select()).all()
        lineage = connection.execute(tables.lineages.select()).one()
        total = price(rule, (), ADJACENCY)
        for number in range(charges):
            planned = planner.plan(DATASET, {"number": -1 - number - start})
            cost = price(rule, [entry.event for entry in planned.entries], ADJACENCY)
            total += cost
            record, now = secrets.token_hex(16), time_now()
            question, entries = canonical(planned.canonical), f"[{planned.entries[0].text}]"
            answer = canonical({"value": secrets.randbits(48)})
            sums = [cost.measure, cost.claimed, cost.largest]
            body = {
                "record": record,
                "dataset": DATASET,
                "analyst": "analyst",
                "group": "group",
                "key": planned.key,
                "time": now,
                "lineage": lineage.identity,
                "question": _sha(question),
                "entries": json.loads(entries),
                "charges": {str(budget.id): sums for budget in budgets},
            }
            answered = {"record": record, "answer": _sha(answer), "time": now}
            records.append(
                {
                    "id": record,
                    "position": position + 1,
                    "dataset_id": 1,
                    "content_id": 1,
                    "account_id": who.account,
                    "group_id": 1,
                    "idempotency_key": record,
                    "question_key": planned.key,
                    "question": question,
                    "labels": "[]",
                    "entries": entries,
                    "caveats": "[]",
                    "filter_name": rule.name,
                    "epsilon": planned.epsilon,
                    "delta": 0.0,
                    "asked_at": now,
                    "owner": "0" * 32,
                    "status": "answered",
                    "answer": answer,
                }
            )
            paid += [
                {
                    "record_id": record,
                    "budget_id": b.id,
                    "measure": sums[0],
                    "claimed": sums[1],
                    "largest": sums[2],
                }
                for b in budgets
            ]
            for kind, plain in ((ChainLink.CHARGE, body), (ChainLink.ANSWER, answered)):
                position, text = position + 1, canonical(plain)
                digest = digest_link(digest, position, kind, text)
                links.append({"position": position, "kind": kind, "body": text, "digest": digest})
        connection.execute(insert(tables.records), records)
        connection.execute(insert(tables.charges), paid)
        connection.execute(insert(tables.chain), links)
        for budget in budgets:
            connection.execute(
                update(tables.budgets)
                .where(tables.budgets.c.id == budget.id)
                .values(
                    measure=budget.measure + total.measure,
                    claimed=budget.claimed + total.claimed,
                    largest=budget.largest + total.largest,
                )
            )
        connection.execute(update(tables.curator).values(links=position, digest=digest))
    with curator.database.read() as connection:
        curator.heads.write(read_head(connection))


def _sha(text):
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()


def measure_histories(folder):
    """Processor time of a request after each history, and of the verification after the longest."""
    curator, who = fill(folder)
    rows, done = [], 0
    for history in HISTORIES:
        add_history(curator, who, history - done)
        for number in range(20):
            curator.ask(
                who, DATASET, {"number": 10**9 + history + number}, idempotency_key=secrets.token_hex(8)
            )
        costs = []
        for number in range(200):
            key = secrets.token_hex(8)
            began = time.process_time()
            curator.ask(who, DATASET, {"number": 10**10 + 1000 * history + number}, idempotency_key=key)
            costs.append(time.process_time() - began)
        done = history + 220
        rows.append({"charges": history, "milliseconds": 1e3 * float(np.median(costs))})
    began = time.process_time()
    found = verify_database(curator.database, curator.heads)
    seconds = time.process_time() - began
    reached = [
        b.reached
        for b in curator.budgets(Principal(account=0, name="s", role=Role.STEWARD), DATASET)
        if b.scope is Scope.DATASET
    ]
    curator.close()
    return rows, {
        "links": found.links,
        "charges": found.charges,
        "seconds": seconds,
        "problems": found.problems,
        "reached": reached,
    }


def serve(folder):
    """A gateway that says how long each charge took: from the request for the lock to the exported head."""
    curator = open_curator(folder)
    local = threading.local()
    reserve, export = curator._reserve, curator.heads.write

    def timed_reserve(asked):
        local.began = time.perf_counter()
        return reserve(asked)

    def timed_export(head):
        export(head)
        if getattr(local, "began", None) is not None:
            local.charge, local.began = time.perf_counter() - local.began, None

    curator._reserve, curator.heads.write = timed_reserve, timed_export

    def answer(request):
        local.charge, local.began = None, None
        who = Principal(account=request["account"], name="analyst", role=Role.ANALYST)
        record = curator.ask(who, DATASET, {"number": request["number"]}, idempotency_key=request["key"])
        return {"status": str(record.status), "charge": local.charge}

    serve_lines(folder / "socket", answer)


def measure_load(folder, rate, seconds):
    """Requests at a steady rate, whether or not earlier ones are answered."""
    curator, who = fill(folder)
    curator.close()
    gateway = subprocess.Popen([sys.executable, __file__, "--serve", str(folder)])
    client = LineClient(folder / "socket")
    while not (folder / "socket").exists():
        time.sleep(0.05)
    charges, replies, late, lock = [], [], 0, threading.Lock()

    def ask(number):
        began = time.perf_counter()
        found = client.call({"account": who.account, "number": number, "key": secrets.token_hex(8)})
        with lock:
            replies.append(time.perf_counter() - began)
            charges.append(found["charge"])
        client.close()

    try:
        for number in range(20):
            ask(number)
        charges.clear()
        replies.clear()
        threads, start = [], time.perf_counter()
        for number in range(int(rate * seconds)):
            wait = start + number / rate - time.perf_counter()
            late += wait < -0.05
            time.sleep(max(wait, 0.0))
            threads.append(threading.Thread(target=ask, args=(1000 + number,)))
            threads[-1].start()
        for thread in threads:
            thread.join()
        elapsed = time.perf_counter() - start
    finally:
        os.kill(gateway.pid, signal.SIGKILL)
        gateway.wait()
    return {
        "requests": len(charges),
        "rate": len(charges) / elapsed,
        "late": late,
        "charge_ms": _quantiles(charges),
        "reply_ms": _quantiles(replies),
        "fsync_ms": _quantiles(time_fsync(folder)),
    }


def time_fsync(folder, times=200):
    took = []
    with (folder / "fsync").open("wb") as file:
        for _ in range(times):
            file.write(bytes(4096))
            file.flush()
            began = time.perf_counter()
            os.fsync(file.fileno())
            took.append(time.perf_counter() - began)
    return took


def _quantiles(seconds):
    return {f"p{q}": round(1e3 * float(np.quantile(seconds, q / 100)), 1) for q in (50, 95, 99)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=50)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--folder", type=Path, help="on the disk that is to be measured")
    parser.add_argument("--only", choices=("load", "history"))
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve is not None:
        serve(arguments.serve)
        return
    found = {"load_average": os.getloadavg()}
    with tempfile.TemporaryDirectory(prefix="privet-load-", dir=arguments.folder) as folder:
        if arguments.only != "history":
            (Path(folder) / "load").mkdir()
            found["load"] = measure_load(Path(folder) / "load", arguments.rate, arguments.seconds)
        if arguments.only != "load":
            (Path(folder) / "history").mkdir()
            found["history"], found["verify"] = measure_histories(Path(folder) / "history")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
