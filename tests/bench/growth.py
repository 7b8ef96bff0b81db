# SPDX-License-Identifier: MIT
"""What more locks, and more waiters, change: nothing, if all is well."""
import shutil
import statistics

from costs import Walls
from processes import family
from queues import Gate, Queue, quantile
from standing import LEASE, SAMPLE, Window, standing
from support.proc import wait_until
from tools import MAIN

# How many start together: so many that it takes no minutes, and so few that none of them has to wait for long.
AT_ONCE = 20
# Hand-overs are looked at while the queue still has about its length.
FIRST = 100


def growth(bench, report):
    counts = (1, 100) if bench.quick else (1, 10, 100, 1000)
    locks(bench, report, counts)
    waiters(bench, report, counts)


class Held:
    """Locks, more and more, each with a klock, a guard and a command; on all stores."""

    def __init__(self, bench):
        self._bench, self._gate, self.holders = bench, Gate(bench, "growth"), {store: [] for store in bench.urls}

    def grow(self, count):
        started = sum(map(len, self.holders.values()))
        for store, holders in self.holders.items():
            while len(holders) < count:
                for _ in range(min(AT_ONCE, count - len(holders))):
                    name = f"held:{len(holders)}"
                    words = self._bench.run_klock(store, name)
                    holders.append(self._bench.start(*words, *self._gate.before(name)))
                    started += 1
                wait_until(lambda: self._gate.standing() == started, timeout=60, what="they hold their locks")

    def end(self):
        self._gate.open()
        for holder in sum(self.holders.values(), []):
            assert holder.wait(120) == 0, holder.args


def commands(bench):
    """What is timed: {name: command}."""
    true = shutil.which("true")
    found = {"flock": [*bench.tools["flock"]("growth"), true]}
    for store, url in bench.urls.items():
        found[f"{store} run"] = [*bench.run_klock(store, "one-more"), true]
        found[f"{store} status"] = [bench.klock, "status", "--url", url, "held:0"]
        found[f"{store} list"] = [bench.klock, "list", "--url", url]
    return found


def locks(bench, report, counts):
    """One more run, and a look at locks, when so many are held; and what the holders do meanwhile."""
    rounds, runs, seconds = (6, 3, 3) if bench.quick else (20, 5, LEASE)
    held, window, rows = Held(bench), Window(bench), []
    for count in counts:
        held.grow(count)
        walls = Walls(bench, commands(bench), rounds, runs)
        pids = {store: [pid for holder in holders[:SAMPLE] for pid in family(holder.pid)]
                for store, holders in held.holders.items()}
        cpu = window.watch({**pids, "server": [bench.server.popen.pid]}, seconds)
        for store in bench.urls:
            calls = len(window.calls) / window.seconds if store == "klock redis" else 0.0
            rows.append([store, f"{count:,}", walls.median(f"{store} run"), walls.ratio(f"{store} run", "flock"),
                         walls.median(f"{store} status"), walls.median(f"{store} list"), calls, calls * LEASE / count,
                         cpu[store] / min(count, SAMPLE), cpu["server"] / 600 if store == "klock redis" else 0.0])
    held.end()
    report.add("growth-locks", f"so many locks are held, all by processes, with a lease of {LEASE} s",
               ["store", "locks", "run ms", "/flock", "status ms", "list ms", "commands/s", f"of each in {LEASE} s",
                "CPU ms/min of each", "server CPU %"], rows)


def waiters(bench, report, counts):
    """Hand-overs when so many wait, and what they cost until then."""
    rounds = {1: 3, 100: 1} if bench.quick else {1: 20, 10: 4, 100: 2, 1000: 1}
    seconds = 3 if bench.quick else LEASE
    rows = []
    for count in counts:
        gaps, cost = {name: [] for name in MAIN}, {}
        for number in range(rounds[count]):
            queues = {name: Queue(bench, name, count, at_once=AT_ONCE) for name in MAIN}
            if number == 0:
                cost = standing(bench, queues, seconds)
            for name, queue in queues.items():
                gaps[name] += queue.release()[0][:FIRST]
        median = {name: statistics.median(some) for name, some in gaps.items()}
        rows += [[name, f"{count:,}", median[name], quantile(gaps[name], 0.99), median[name] / median["flock"], str(len(gaps[name])),
                  *(cost[name, "waiter"][place] for place in (1, 2, 0))] for name in MAIN]
    report.add("growth-waiters", f"so many wait for one lock; the first {FIRST} hand-overs, and a waiter who waits",
               ["tool", "waiters", "median ms", "p99 ms", "/flock", "n", "PSS MiB", f"commands in {LEASE} s", "CPU ms/min"], rows)
