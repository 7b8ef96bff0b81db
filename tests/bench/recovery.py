# SPDX-License-Identifier: MIT
"""Who holds a lock is killed, and somebody waits for it."""
import statistics
import subprocess
import time

from processes import Deaths, asleep, command_of
from queues import Queue, new_log, read_log, section
from report import text
from support.proc import wait_until, wipe_out
from tools import MAIN

# Of peers: what is left of it is how long the next one waits; the command lives longer than that if nobody stops it.
TTL, LIFE = 4, 8


def crash(bench, tools, end=subprocess.Popen.kill):
    """{name: (ms that both commands ran, ms from the death of the old one to the next, ms from the kill to the next,
    whether the old one ran to its end)}"""
    logs = {name: new_log(bench, f"recovery-{name.replace(' ', '-')}") for name in tools}
    words = {name: tool(f"recovery-{name.replace(' ', '-')}") for name, tool in tools.items()}
    holders = {name: bench.start(*words[name], *section(bench, logs[name], "old", LIFE * 1_000_000)) for name in tools}
    wait_until(lambda: all(read_log(log) for log in logs.values()), timeout=20, what="holders")
    commands = {name: command_of(holder.pid) for name, holder in holders.items()}
    waiters = {name: bench.start(*words[name], *section(bench, logs[name], "next")) for name in tools}
    for name, waiter in waiters.items():
        # On a busy machine it may be through already: a lease that nobody renews is over soon.
        wait_until(lambda: asleep([waiter.pid]) or waiter.poll() is not None, timeout=20, what=f"{name}: waiter settles")
    deaths, killed = Deaths(commands.values()), {}
    for name, holder in holders.items():
        killed[name] = time.monotonic_ns()
        end(holder)
    died = deaths.wait(2 * LIFE)
    found = {}
    for name, waiter in waiters.items():
        assert waiter.wait(60) == 0, name
        holders[name].wait()
        noted = {(what, who): ns for what, who, ns in read_log(logs[name])}
        begin, to_its_end = noted["begin", "next"], ("end", "old") in noted
        # What the command has noted is more exact than when we came to know.
        dead = noted["end", "old"] if to_its_end else died[commands[name]]
        found[name] = (max(0, dead - begin) / 1e6, (begin - dead) / 1e6, (begin - killed[name]) / 1e6, to_its_end)
    return found


def overlap(both, to_its_end):
    return f"{text(max(both))} ms{', to its end' if any(to_its_end) and max(both) else ''}"


def recovery(bench, report):
    holders(bench, report)
    waiters(bench, report)


def holders(bench, report):
    rounds = 3 if bench.quick else 10
    crashes = {}
    for name in MAIN[1:]:
        crashes[name] = [crash(bench, {name: bench.tools[name]})[name] for _ in range(rounds)]
    host = {"klock redis host": lambda name: bench.run_klock("klock redis", name, "--ttl", f"{TTL}s")}
    crashes.update({name: [figures] for name, figures in crash(bench, host, wipe_out).items()})
    # These are over only when the command is: all at once.
    rest = {"flock": bench.tools["flock"], **bench.peers.tools(TTL)}
    crashes.update({name: [figures] for name, figures in crash(bench, rest).items()})
    rows = []
    for name, some in crashes.items():
        both, after_death, after_kill, to_its_end = zip(*some)
        late = [statistics.median(after_death), max(after_death)] if max(both) == 0 else ["-", "-"]
        rows.append([name, overlap(both, to_its_end), *late, statistics.median(after_kill)])
    report.add("recovery", f"SIGKILL of the holder, {rounds} times; once, with a lease of {TTL} s: of all that is klock's, as "
               "when the host is gone; flock; peers",
               ["tool", "both ran (worst)", "next after the old one's end ms", "worst", "next after the kill ms"], rows)


def waiters(bench, report):
    """Those in front of the last one are killed."""
    rounds, dead = (2 if bench.quick else 10), 9
    gaps = {name: [] for name in MAIN}
    for _ in range(rounds):
        for name in MAIN:
            queue = Queue(bench, name, dead + 1)
            queue.kill_first(dead)
            gaps[name] += queue.release()[0]
    median = {name: statistics.median(some) for name, some in gaps.items()}
    rows = [[name, median[name], max(gaps[name]), median[name] / median["flock"]] for name in MAIN]
    report.add("recovery-waiters", f"SIGKILL of the {dead} waiters before the last one, which starts after the holder's end, {rounds} times",
               ["tool", "median ms", "worst", "/flock"], rows)
