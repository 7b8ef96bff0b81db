#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Measures klock beside flock(1) and hand-written floors; see README.md."""
import argparse
import contextlib
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "e2e"))
from support import many  # noqa: E402
from support.clusters import Cluster  # noqa: E402
from support.independent import Independent  # noqa: E402
from support.proc import children, guard_of, group, command_of, wait_until  # noqa: E402
from support.sentinels import NAME, Sentinel  # noqa: E402
from support.servers import RedisServer  # noqa: E402


class Bench:
    """The tools to compare, a server, and what has been measured."""

    def __init__(self, klock, quick, directory):
        self.quick, self.directory = quick, pathlib.Path(directory)
        self.helpers = str(self.directory / "helpers")
        subprocess.run(["cc", "-O2", "-o", self.helpers, HERE / "helpers.c"], check=True)
        (self.directory / "server").mkdir()
        self.server = RedisServer(self.directory / "server")
        local = self.directory / "local"
        local.mkdir()
        self.env = {"PATH": os.environ["PATH"], "HOME": directory, "LANG": "C.UTF-8"}
        self.urls = {"klock redis": self.server.url, "klock local": f"local:{local}"}
        self.klock = klock
        # `X NAME COMMAND...`: tool(name) is what stands before the command.
        self.tools = {
            "flock": lambda name: ["flock", str(self.directory / f"{name}.flock")],
            "klock redis": lambda name: self.run_klock("klock redis", name),
            "klock local": lambda name: self.run_klock("klock local", name),
            "floor redis": lambda name: [self.helpers, "redis", str(self.server.port), name],
            "floor local": lambda name: [self.helpers, "local", str(self.directory / f"{name}.floor")],
        }
        self.results = {}
        self.started = []

    def run_klock(self, store, name, *options):
        return [self.klock, "run", "--url", self.urls[store], *options, name, "--"]

    def start(self, *argv, **options):
        self.started.append(subprocess.Popen(list(argv), env=self.env, cwd=self.directory, stdin=subprocess.DEVNULL, **options))
        return self.started[-1]

    def output(self, *argv):
        return subprocess.run(argv, env=self.env, cwd=self.directory, stdin=subprocess.DEVNULL, check=True,
                              capture_output=True, text=True).stdout

    def section(self, log, name, usec=0):
        return [self.helpers, "mark", str(log), name, str(usec)]

    def end(self):
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
        for process in self.started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            if process.poll() is None:
                process.kill()
        self.server.kill()

    def report(self, measure, title, head, rows):
        self.results[measure] = {"title": title, "rows": [dict(zip(head, row)) for row in rows]}
        print(f"\n{measure}: {title}\n")
        texts = [head] + [[value if isinstance(value, str) else f"{value:.3g}" for value in row] for row in rows]
        widths = [max(len(row[i]) for row in texts) for i in range(len(head))]
        for row in texts:
            print("  " + "  ".join(text.ljust(widths[i]) if i == 0 else text.rjust(widths[i]) for i, text in enumerate(row)))
        sys.stdout.flush()


def read_log(path):
    """[(what, id, ns)] of the sections in order of time."""
    if not path.exists():
        return []
    lines = [line.split() for line in path.read_text(encoding="ascii").splitlines()]
    return sorted(((what, name, int(ns)) for what, name, ns in lines), key=lambda entry: entry[2])


def wall(bench, commands, rounds, runs):
    """{name: [median ms of each round]}: each round runs every command a few times, beginning with another."""
    names = list(commands)
    medians = {name: [] for name in names}
    for number in range(rounds):
        for name in names[number % len(names):] + names[: number % len(names)]:
            times = bench.output(bench.helpers, "time", str(runs), *commands[name]).split()
            medians[name].append(statistics.median(int(ns) for ns in times) / 1e6)
    return medians


def median_ratio(medians, name, base):
    return statistics.median(a / b for a, b in zip(medians[name], medians[base]))


def wrap(bench):
    """Cost of `X NAME true`."""
    rounds, runs = (12, 5) if bench.quick else (60, 10)
    true = shutil.which("true")
    place = bench.directory / "sentinel"
    place.mkdir()
    sentinel = Sentinel(place, bench.server.port, 1)
    bench.started.append(sentinel.popen)
    (bench.directory / "cluster").mkdir()
    cluster = Cluster(bench.directory / "cluster", replicas=False)
    bench.started += [server.popen for server in cluster.servers]
    independent = Independent(bench.directory)
    bench.started += [server.popen for server in independent.servers]
    urls = {"klock sentinel": f"redis-sentinel://127.0.0.1:{sentinel.port}/{NAME}", "klock cluster": cluster.url,
            **{f"klock redlock {count}": independent.url_of(count) for count in (3, 5)}}
    run = lambda url: lambda name: [bench.klock, "run", "--url", url, name, "--"]
    tools = {**bench.tools, **{name: run(url) for name, url in urls.items()}}
    medians = wall(bench, {"true": [true], **{name: [*tool("wrap"), true] for name, tool in tools.items()}}, rounds, runs)
    floor = lambda name: "floor local" if "local" in name or name == "flock" else "floor redis"
    rows = [[name, statistics.median(medians[name]), min(medians[name]), median_ratio(medians, name, "flock"),
             median_ratio(medians, name, floor(name)), median_ratio(medians, name, "klock redis")] for name in medians]
    bench.report("wrap", f"`X NAME true`, {rounds} interleaved rounds of {runs}",
                 ["tool", "median ms", "best ms", "/flock", "/floor", "/klock redis"], rows)


def modes(bench):
    """Cost of `X NAME true` for readers and slots, beside another one who holds it all the time; and of once-only work."""
    rounds, runs = (8, 5) if bench.quick else (30, 10)
    true, flock = shutil.which("true"), str(bench.directory / "modes.flock")
    holder = ["sh", "-c", "echo; exec sleep 1000"]
    beside = [bench.start("flock", "-s", flock, *holder, stdout=subprocess.PIPE)]
    commands = {"flock -s": ["flock", "-s", flock, true]}
    for store in bench.urls:
        for options in (["-s"], ["--slots", "3"]):
            name = f"{store} {options[0]}"
            beside.append(bench.start(*bench.run_klock(store, name.replace(" ", "_"), *options), *holder, stdout=subprocess.PIPE))
            commands[name] = [*bench.run_klock(store, name.replace(" ", "_"), *options), true]
        bench.output(*bench.run_klock(store, "once", "--once", "k"), true)
        commands[f"{store} --once, done"] = [*bench.run_klock(store, "once", "--once", "k"), true]
    for process in beside:
        process.stdout.readline()
    medians = wall(bench, commands, rounds, runs)
    rows = [[name, statistics.median(medians[name]), min(medians[name]), median_ratio(medians, name, "flock -s")]
            for name in medians]
    bench.report("modes", "`X NAME true` beside another holder, and work that was done before",
                 ["tool", "median ms", "best ms", "/flock -s"], rows)
    for process in beside:
        process.terminate()


def shell(bench):
    """A script that takes a lock, and gives it up again."""
    rounds, runs = (8, 5) if bench.quick else (30, 10)
    flock = str(bench.directory / "shell.flock")
    script = '"$0" release --url "$1" "$2"'
    commands = {"flock FD": ["sh", "-c", 'exec 9>"$0"; flock 9; flock -u 9', flock]}
    for store, url in bench.urls.items():
        for name, option in (("keeper", ""), ("--no-keeper", "--no-keeper ")):
            take = f'eval "$("$0" acquire {option}--url "$1" "$2")" || exit; '
            commands[f"{store}, {name}"] = ["sh", "-c", take + script, bench.klock, url, "shell"]
    medians = wall(bench, commands, rounds, runs)
    rows = [[name, statistics.median(medians[name]), min(medians[name]), median_ratio(medians, name, "flock FD")]
            for name in medians]
    bench.report("shell", "a script that acquires and releases", ["tool", "median ms", "best ms", "/flock FD"], rows)


def start_queue(bench, tool, count, log):
    """A holder and `count` waiters in order of arrival; the holder ends when the returned file appears."""
    gate = bench.directory / "gate"
    gate.unlink(missing_ok=True)
    holding = ["sh", "-c", f"until test -e {gate}; do sleep 0.02; done; exec \"$@\"", "sh", *bench.section(log, "holder")]
    processes = [bench.start(*tool("queue"), *holding)]
    wait_until(lambda: [p for p in descendants_of(processes[0].pid) if p == "sleep"], what="holder")
    for number in range(count):
        processes.append(bench.start(*tool("queue"), *bench.section(log, str(number))))
        wait_until(lambda: asleep(processes[-1].pid), what="waiter settles")
    time.sleep(0.2)
    return gate, processes


def descendants_of(pid):
    found = []
    for child in children(pid):
        found += [child.comm, *descendants_of(child.pid)]
    return found


def asleep(pid):
    """The waiter has had its round trips: it sleeps, and has used no CPU between two looks."""
    def look():
        with contextlib.suppress(OSError):
            state = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0]
            return state, pathlib.Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii")
        return None

    first = look()
    time.sleep(0.008)
    return first and first[0] == "S" and first == look()


def handover(bench):
    counts = [1, 20] if bench.quick else [1, 20, 100]
    rounds = {1: 6 if bench.quick else 30, 20: 1 if bench.quick else 4, 100: 2}
    tools = ["flock", "klock redis", "klock local"]
    gaps = {(name, count): [] for name in tools for count in counts}
    overtaken = dict.fromkeys(gaps, 0)
    for count in counts:
        for _ in range(rounds[count]):
            for name in tools:
                log = bench.directory / "handover.log"
                log.unlink(missing_ok=True)
                gate, processes = start_queue(bench, bench.tools[name], count, log)
                gate.touch()
                for process in processes:
                    assert process.wait(60) == 0, (name, count)
                entries = read_log(log)
                order = [int(entry[1]) for entry in entries if entry[0] == "begin" and entry[1] != "holder"]
                overtaken[name, count] += sum(a > b for a, b in zip(order, order[1:]))
                gaps[name, count] += [(b[2] - a[2]) / 1e6 for a, b in zip(entries, entries[1:]) if a[0] == "end"]
    median = {key: statistics.median(values) for key, values in gaps.items()}
    rows = [[name, str(count), median[name, count], quantile(gaps[name, count], 0.99),
             median[name, count] / median["flock", count], str(overtaken[name, count]), str(len(gaps[name, count]))]
            for count in counts for name in tools]
    bench.report("handover", "end of one command to the start of the next",
                 ["tool", "waiters", "median ms", "p99 ms", "/flock", "overtaken", "n"], rows)


def quantile(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(part * len(values)))]


def contend(bench):
    rounds, seconds, workers = (2, 1.0, 8) if bench.quick else (6, 1.5, 8)
    tools = ["flock", "klock redis", "klock local"]
    rates = {name: [] for name in tools}
    overlaps = dict.fromkeys(tools, 0)
    spread = {name: [] for name in tools}
    for _ in range(rounds):
        for name in tools:
            log = bench.directory / "contend.log"
            log.unlink(missing_ok=True)
            begin = time.monotonic()
            loops = [bench.start(bench.helpers, "loop", str(seconds), *bench.tools[name]("contend"),
                                 *bench.section(log, str(i), 200), stdout=subprocess.PIPE, text=True)
                     for i in range(workers)]
            done = [int(loop.communicate(timeout=60)[0] or 0) for loop in loops]
            rates[name].append(sum(done) / (time.monotonic() - begin))
            spread[name] += done
            entries = read_log(log)
            overlaps[name] += sum(a[0] == "begin" and b[0] == "begin" for a, b in zip(entries, entries[1:]))
    ratio = lambda name: statistics.median(a / b for a, b in zip(rates[name], rates["flock"]))
    rows = [[name, statistics.median(rates[name]), ratio(name), str(overlaps[name]), f"{min(spread[name])}-{max(spread[name])}"]
            for name in tools]
    bench.report("contend", f"{workers} processes again and again, 200 us inside",
                 ["tool", "sections/s", "/flock", "overlaps", "per process"], rows)


def cpu_ms(pids):
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{pid}/task"):
                total += int(pathlib.Path(f"/proc/{pid}/task/{task}/schedstat").read_text(encoding="ascii").split()[0])
    return total / 1e6


def pss_mib(pids):
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
            total += next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
    return total / 1024


def klock_pids(process):
    guard = guard_of(process.pid)
    return [process.pid] + ([guard] if guard else [])


def idle(bench):
    waiters, seconds, rows = (10, 5, []) if bench.quick else (50, 30, [])
    for name in ("klock redis", "klock local"):
        log = bench.directory / "idle.log"
        gate, (holder, *queue) = start_queue(bench, bench.tools[name], waiters, log)
        with bench.server.monitor() as monitor:
            roles = {"holder": klock_pids(holder), "waiter": [pid for process in queue for pid in klock_pids(process)]}
            before = {role: cpu_ms(pids) for role, pids in roles.items()}
            time.sleep(seconds)
            calls = len(monitor.calls())
            for role, pids in roles.items():
                count = 1 if role == "holder" else waiters
                rows.append([f"{name} {role}", (cpu_ms(pids) - before[role]) / count * 60 / seconds, pss_mib(pids) / count,
                             calls * 60 / seconds if name == "klock redis" and role == "holder" else 0.0])
        gate.touch()
        for process in (holder, *queue):
            process.wait(60)
    bench.report("idle", f"1 holder and {waiters} waiters for {seconds} s, lease 15 s; commands are those of all of them",
                 ["who", "CPU ms/min", "PSS MiB", "commands/min"], rows)


def recovery(bench):
    rounds = 3 if bench.quick else 10
    rows = []
    for name in ("klock redis", "klock local"):
        both, until_next = [], []
        for _ in range(rounds):
            log = bench.directory / "recovery.log"
            log.unlink(missing_ok=True)
            holder = bench.start(*bench.tools[name]("recovery"), "sleep", "1000")
            command = wait_until(lambda: command_of(holder.pid), what="command")
            waiter = bench.start(*bench.tools[name]("recovery"), *bench.section(log, "next"))
            wait_until(lambda: asleep(waiter.pid))
            holder.kill()
            while group(command):
                pass
            dead = time.monotonic_ns()
            assert waiter.wait(30) == 0
            begin = read_log(log)[0][2]
            both.append(max(0, dead - begin) / 1e6 if begin < dead else 0.0)
            until_next.append((begin - dead) / 1e6)
            holder.wait()
        rows.append([name, max(both), statistics.median(until_next), max(until_next)])
    bench.report("recovery", f"SIGKILL of the holder's klock, {rounds} times (how often /proc can be read limits the first two)",
                 ["tool", "both ran ms (worst)", "next starts after ms", "worst"], rows)


def list_(bench):
    rounds = 3 if bench.quick else 15
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
    bench.server.client().flushall()
    bench.report("list", f"10,000 locks, {rounds} times", ["command", "median ms", "worst"], rows)


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


def history(bench):
    """What many runs leave, each with a name, and a group, of its own."""
    runs = 5_000 if bench.quick else 100_000
    rows = []
    for tool, url in bench.urls.items():
        script = 'i=$1; while [ $i -lt $2 ]; do "$3" run --url "$4" "g$i:n" -- true || exit; i=$((i + 1)); done'
        loops = [bench.start("sh", "-c", script, "sh", str(from_), str(from_ + runs // 2), bench.klock, url)
                 for from_ in (0, runs // 2)]
        if any(loop.wait() for loop in loops):
            sys.exit(f"history: a run failed ({tool})")
        rows.append([tool, *kib(bench, url)])
    bench.server.client().flushall()
    bench.report("history", f"after {runs:,} runs over as many names and groups", ["store", "log KiB", "statistics KiB",
                                                                                  "all KiB"], rows)


MEASURES = {"wrap": wrap, "modes": modes, "shell": shell, "handover": handover, "contend": contend, "idle": idle, "recovery": recovery,
            "list": list_, "history": history}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measures", nargs="*", choices=[*MEASURES, []], help="default: all")
    parser.add_argument("--quick", action="store_true", help="a tenth of the samples")
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    parser.add_argument("--klock", default=os.environ.get("KLOCK", HERE / "../../build/release/klock"))
    options = parser.parse_args()
    klock = os.path.abspath(options.klock)
    if not os.access(klock, os.X_OK):
        parser.error(f"no klock at {klock}: build the preset release, or use --klock")
    with tempfile.TemporaryDirectory(prefix="klock-bench-") as directory:
        bench = Bench(klock, options.quick, directory)
        try:
            for measure in options.measures or MEASURES:
                MEASURES[measure](bench)
        finally:
            bench.end()
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(bench.results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
