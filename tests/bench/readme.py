# SPDX-License-Identifier: MIT
"""The part of README.md that says what klock costs, out of what has been measured."""
import datetime
import os
import platform
import re
import subprocess

from report import text as number

BEGIN, END = "<!-- what follows is printed by tests/bench/bench.py --readme -->", "<!-- until here -->"
MEASURES = ("wrap", "handover", "contend", "idle", "recovery", "growth")
PEERS = ("etcdctl", "redis-cli", "redis-py")
HEAD = ("what", "Redis", "local", "best neighbour", "flock(1)")
COUNTS = ("1", "10", "100", "1,000")
GROWTH_HEAD = ("so many locks, or waiters", *COUNTS)


class Figure:
    """A row of the first table: a column of a measure. `who` are the words after the tool's name, for several figures of a
    kind; `base`: the column that has the ratio to flock, for klock and its neighbours."""

    def __init__(self, name, measure, column, unit="", base=None, who=("",), best=min, **where):
        self.name, self.measure, self.column, self.unit, self.base = name, measure, column, unit, base
        self.who, self.best, self.where = who, best, where

    def row(self, results):
        totals = {peer: sum(leading(row[self.column]) for row in self._rows(results, peer)) for peer in PEERS
                  if self._rows(results, peer)}
        best = self.best((peer for peer, total in totals.items() if total < float("inf")), key=totals.get, default=None)
        neighbour = f"{best}: {self._cell(results, best)}" if best else "-"
        return [self.name, self._cell(results, "klock redis"), self._cell(results, "klock local"), neighbour,
                self._cell(results, "flock", ratio=False)]

    def _rows(self, results, tool):
        """One for each of `who`, or none."""
        found = [row for who in self.who for row in results[self.measure]["rows"]
                 if (tool + who) == next(iter(row.values())) and self.where.items() <= row.items()]
        return found if len(found) == len(self.who) else []

    def _cell(self, results, tool, ratio=True):
        rows = self._rows(results, tool)
        if not rows or "-" in [row[self.column] for row in rows]:
            return "-"
        values = "; ".join(number(row[self.column]) for row in rows) + self.unit
        return f"{number(rows[0][self.base])} x flock, {values}" if self.base and ratio else values


def leading(value):
    """The number that a cell begins with; what has none is worse than all."""
    found = re.match(r"[\d.,]+", str(value))
    return float(found[0].replace(",", "")) if found else float("inf")


def of_holder_and_waiter(name, column, unit=""):
    return Figure(name, "idle", column, unit, who=(" holder", " waiter"))


FIGURES = (
    Figure("`klock run x -- true`", "wrap", "median ms", " ms", "/flock"),
    *(Figure(f"from the end of one command to the start of the next, {waiters}", "handover", "median ms", " ms", "/flock",
             waiters=waiters.split()[0]) for waiters in ("1 waiter", "20 waiters", "100 waiters")),
    Figure("... overtaken, 20 waiters", "handover", "overtaken", waiters="20"),
    Figure("sections a second, 8 processes again and again", "contend", "sections/s", "", "/flock", best=max),
    Figure("commands of an idle waiter to the server in 15 s, a lease", "idle", "commands in 15 s", who=(" waiter",)),
    of_holder_and_waiter("memory (PSS) of a holder, klock with its guard; of a waiter", "PSS MiB", " MiB"),
    of_holder_and_waiter("CPU of an idle holder; of a waiter, a minute", "CPU ms/min", " ms"),
    Figure("klock, or its like, killed: both commands run at once for", "recovery", "both ran (worst)"),
    Figure("... the next one starts after the old one's end within", "recovery", "next after the old one's end ms", " ms"),
    Figure("the holder's host is gone, lease 4 s: the next one starts within", "recovery", "next after the kill ms", " ms",
           who=(" host",)),
    Figure("9 waiters killed: the tenth starts after the holder's end within", "recovery-waiters", "median ms", " ms", "/flock"),
)


class Growth:
    """A row of the second table."""

    def __init__(self, name, measure, tool, column, unit="", base=None):
        self.name, self.measure, self.tool, self.column, self.unit, self.base = name, measure, tool, column, unit, base

    def row(self, results):
        found = {tuple(row.values())[1]: row for row in results[self.measure]["rows"] if next(iter(row.values())) == self.tool}
        return [self.name, *(self._cell(found[count]) if count in found else "-" for count in COUNTS)]

    def _cell(self, row):
        value = number(row[self.column]) + self.unit
        return f"{number(row[self.base])} x flock, {value}" if self.base else value


def growing():
    for store in ("Redis", "local"):
        tool = f"klock {store.lower()}"
        yield Growth(f"{store}: `klock run x -- true` while so many locks are held", "growth-locks", tool, "run ms", " ms", "/flock")
        yield Growth(f"{store}: `klock status x` then", "growth-locks", tool, "status ms", " ms")
        yield Growth(f"{store}: `klock list` then", "growth-locks", tool, "list ms", " ms")
        if store == "Redis":
            yield Growth("Redis: commands of each holder to the server in 15 s", "growth-locks", tool, "of each in 15 s")
        yield Growth(f"{store}: from one command to the next with so many waiters", "growth-waiters", tool, "median ms", " ms",
                     "/flock")
        yield Growth(f"{store}: memory (PSS) of a waiter", "growth-waiters", tool, "PSS MiB", " MiB")
        if store == "Redis":
            yield Growth("Redis: commands of each waiter to the server in 15 s", "growth-waiters", tool, "commands in 15 s")
        yield Growth(f"{store}: CPU of a waiter, a minute", "growth-waiters", tool, "CPU ms/min", " ms")


GROWTH = tuple(growing())


def markdown(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def version(*command):
    """What a program says of itself, as far as it is a number; None if it is not here."""
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except OSError:
        return None
    found = re.search(r"\d+(\.\d+)+", said.stdout + said.stderr)
    return f"{command[0]} {found[0]}" if found else None


def conditions():
    """When, and on what."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = re.search(r"^model name\s*: *(.*)$", file.read(), re.M)
    programs = (version("redis-server", "--version"), version("etcd", "--version"), version("flock", "--version"))
    return (f"{datetime.date.today()}, {os.cpu_count()} x {model[1].strip() if model else platform.machine()}, "
            f"Linux {platform.release().split('-')[0]}, servers on loopback; {', '.join(filter(None, programs))}. "
            "Read the ratios; times are medians.")


def text(results):
    figures = markdown(HEAD, [figure.row(results) for figure in FIGURES])
    return "\n\n".join((BEGIN, conditions(), figures, "As the work grows:",
                        markdown(GROWTH_HEAD, [row.row(results) for row in GROWTH]), END))


def put_into(path, results):
    old = path.read_text(encoding="utf-8")
    part = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.S)
    assert len(part.findall(old)) == 1, f"{path} has no place for it, between {BEGIN} and {END}"
    path.write_text(part.sub(lambda _: text(results), old), encoding="utf-8")
