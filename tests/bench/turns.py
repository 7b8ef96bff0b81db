# SPDX-License-Identifier: MIT
"""Who comes next, and when: a queue that is let go, and processes that come again and again."""
import statistics
import subprocess
import time

from queues import Queue, new_log, quantile, read_log, section
from tools import MAIN


def handover(bench, report):
    rounds = {1: 6, 20: 1} if bench.quick else {1: 30, 20: 4, 100: 2}
    rounds_of_peers = {1: 2} if bench.quick else {1: 10, 20: 2}
    keys = [(name, count) for count in rounds for name in MAIN + (bench.peers.names if count in rounds_of_peers else [])]
    gaps = {key: [] for key in keys}
    overtaken = dict.fromkeys(keys, 0)
    for number in range(max(rounds.values())):
        for name, count in keys:
            if number < (rounds if name in MAIN else rounds_of_peers)[count]:
                some, late = Queue(bench, name, count).release()
                gaps[name, count] += some
                overtaken[name, count] += late
    median = {key: statistics.median(values) for key, values in gaps.items()}
    rows = [[name, str(count), median[name, count], quantile(gaps[name, count], 0.99),
             median[name, count] / median["flock", count], f"{overtaken[name, count]} of {len(gaps[name, count])}"]
            for name, count in keys]
    report.add("handover", "end of one command to the start of the next",
               ["tool", "waiters", "median ms", "p99 ms", "/flock", "overtaken"], rows)


def contend(bench, report):
    rounds, seconds, workers = (2, 1.0, 8) if bench.quick else (6, 1.5, 8)
    rounds_of_peers, seconds_of_peers = (1, 1.2) if bench.quick else (2, 2.5)
    names = MAIN + bench.peers.names
    rates, spread = {name: [] for name in names}, {name: [] for name in names}
    overlaps = dict.fromkeys(names, 0)
    for number in range(rounds):
        for name in names if number < rounds_of_peers else MAIN:
            log = new_log(bench, "contend")
            length = seconds if name in MAIN else seconds_of_peers
            begin = time.monotonic()
            loops = [bench.start(bench.helpers, "loop", str(length), *bench.tools[name]("contend"),
                                 *section(bench, log, str(worker), 200), stdout=subprocess.PIPE, text=True)
                     for worker in range(workers)]
            done = [int(loop.communicate(timeout=60)[0] or 0) for loop in loops]
            assert all(loop.returncode == 0 for loop in loops), name
            rates[name].append(sum(done) / (time.monotonic() - begin))
            spread[name] += done
            entries = read_log(log)
            overlaps[name] += sum(a[0] == "begin" and b[0] == "begin" for a, b in zip(entries, entries[1:]))
    ratio = lambda name: statistics.median(a / b for a, b in zip(rates[name], rates["flock"]))
    rows = [[name, statistics.median(rates[name]), ratio(name), str(overlaps[name]), f"{min(spread[name])}-{max(spread[name])}"]
            for name in names]
    report.add("contend", f"{workers} processes again and again, 200 us inside",
               ["tool", "sections/s", "/flock", "overlaps", "per process"], rows)
