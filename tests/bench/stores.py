# SPDX-License-Identifier: MIT
"""Stores with much in them."""
import pathlib
import statistics
import sys
import time

from support import many


def list_(bench, report):
    rounds = 2 if bench.quick else 7
    rows = []
    for tool, url in bench.urls.items():
        bench.output(bench.klock, "acquire", "--url", url, "--for", "1h", many.SEED)
        if tool == "klock local":
            many.copy_in(url.removeprefix("local:"), 10_000)
        else:
            many.copy_on_redis(bench.server.client(), 10_000)
        for words in ([], ["--json"], ["--names", "n0123?"], ["--older-than", "1d"]):
            times = []
            for _ in range(rounds):
                begin = time.monotonic()
                bench.output(bench.klock, "list", "--url", url, *words)
                times.append((time.monotonic() - begin) * 1e3)
            rows.append([f"{tool}: list {' '.join(words)}", statistics.median(times), max(times)])
    empty(bench)
    report.add("list", f"10,000 locks, {rounds} times", ["command", "median ms", "worst"], rows)


def empty(bench):
    bench.server.client().flushall()
    for path in pathlib.Path(bench.urls["klock local"].removeprefix("local:")).iterdir():
        path.unlink()


def kib(bench, url):
    """What the log, the statistics and everything else take in a store."""
    if url.startswith("local:"):
        sizes = {path.name: path.stat().st_blocks / 2 for path in pathlib.Path(url.removeprefix("local:")).iterdir()}
        log = sum(size for name, size in sizes.items() if name.startswith("events.log"))
        return log, sizes.get("statistics", 0), sum(sizes.values())
    client = bench.server.client()
    used = {key: (client.memory_usage(key) or 0) / 1024 for key in client.keys("{klock:}*")}
    log = used.get("{klock:}:events", 0)
    return log, sum(used.values()) - log, sum((client.memory_usage(key) or 0) / 1024 for key in client.keys("*"))


def history(bench, report):
    """What many runs leave, each with a name, and a group, of its own."""
    runs = 1_000 if bench.quick else 10_000
    rows = []
    for tool, url in bench.urls.items():
        script = 'i=$1; while [ $i -lt $2 ]; do "$3" run --url "$4" "g$i:n" -- true || exit; i=$((i + 1)); done'
        loops = [bench.start("sh", "-c", script, "sh", str(from_), str(from_ + runs // 2), bench.klock, url)
                 for from_ in (0, runs // 2)]
        if any(loop.wait() for loop in loops):
            sys.exit(f"history: a run failed ({tool})")
        rows.append([tool, *kib(bench, url)])
    empty(bench)
    report.add("history", f"after {runs:,} runs over as many names and groups", ["store", "log KiB", "statistics KiB", "all KiB"],
               rows)
