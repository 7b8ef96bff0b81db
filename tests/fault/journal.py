# SPDX-License-Identifier: MIT
"""The journal: what the commands (job.c) and the run itself have written down, read into holds and faults.

    begin|alive|end NS WHO NAME MODE FENCE PID      the command
    start NS WHO NAME MODE TTL_MS KILL_AFTER_MS     klock is about to be started
    exit NS WHO STATUS                              it has ended
    fault NS NUMBER KIND TARGET                     TARGET: WHO, HOST or the server
    struck NS NUMBER                                what was to be killed is dead (of servers)
    over NS NUMBER                                  it is undone, and what it hit is as it was
    stall NS LENGTH                                 a processor was busy with others until NS
    clock NS OFFSET                                 the servers' wall clock is so far ahead of NS (ns)
"""
import os
import time
from typing import NamedTuple

OPEN = 1 << 62  # an end that is yet to come


def now():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Hold:
    """One `klock run`, and its command if it came to that."""

    def __init__(self, who):
        self.who, self.name, self.mode = who, "", ""
        self.ttl = self.kill_after = 0  # ns
        self.start, self.exit, self.status = 0, OPEN, None
        self.begin, self.last, self.end, self.fence = None, None, None, 0

    def __str__(self):
        return f"{self.who} ({self.name}, {self.mode}, fence {self.fence})"


class Fault:
    def __init__(self, number, begin, kind, target):
        self.number, self.begin, self.kind, self.target = number, begin, kind, target
        self.struck = self.end = OPEN

    def meets(self, begin, end):
        return self.begin <= end and self.end >= begin


class Stall(NamedTuple):
    end: int
    length: int


class Journal:
    def __init__(self):
        self.holds, self.faults, self.stalls, self.records = {}, {}, [], []
        self.begun = self.ended = self._wall_ahead = 0

    def feed(self, lines):
        for line in lines:
            what, ns, first, *words = line.split()
            if what != "alive":
                self.records.append((int(ns), line))
            getattr(self, "_" + what)(int(ns), first, words)

    def _hold(self, who):
        return self.holds.get(who) or self.holds.setdefault(who, Hold(who))

    def _start(self, ns, who, words):
        hold = self._hold(who)
        hold.start, hold.name, hold.mode = ns, words[0], words[1]
        hold.ttl, hold.kill_after = int(words[2]) * 1_000_000, int(words[3]) * 1_000_000

    def _exit(self, ns, who, words):
        hold = self._hold(who)
        hold.exit, hold.status = ns, int(words[0])

    def _begin(self, ns, who, words):
        hold = self._hold(who)
        hold.name, hold.mode, hold.fence = words[0], words[1], int(words[2])
        hold.begin, hold.last = ns, max(ns, hold.last or 0)
        self.begun += 1

    def _alive(self, ns, who, _words):
        hold = self._hold(who)
        hold.last = max(ns, hold.last or 0)

    def _end(self, ns, who, words):
        self._alive(ns, who, words)
        self._hold(who).end = ns
        self.ended += 1

    def _fault(self, ns, number, words):
        self.faults[number] = Fault(number, ns, *words)

    def _struck(self, ns, number, _words):
        self.faults[number].struck = ns

    def _over(self, ns, number, _words):
        self.faults[number].end = ns

    def _clock(self, _ns, offset, _words):
        self._wall_ahead = int(offset)

    def acquired(self, hold):
        """When the server gave it, by its fence (microseconds of its wall clock)."""
        return hold.fence * 1000 - self._wall_ahead

    def _stall(self, ns, length, _words):
        self.stalls.append(Stall(ns, int(length)))

    def timeline(self, begin, end, names, most=60):
        """What happened then, of the holds in `names` and of all faults: for people."""
        lives = [(hold.last, f"last {hold.last} {hold.who}") for hold in self.holds.values() if hold.last is not None]
        shown = []
        for ns, line in sorted(self.records + lives):
            what, _, first, *words = line.split()
            told = what in ("fault", "over") or (what == "stall" and int(first) >= 40_000_000) or first in names
            if begin <= ns <= end and told:
                shown.append(f"  {(ns - begin) / 1e6:9.2f} ms  {what:6} {first} {' '.join(words)}")
        if len(shown) > most:
            shown[most // 2:-most // 2] = ["  ..."]
        return "\n".join(shown)


class Writer:
    """Appends to a journal; from several threads."""

    def __init__(self, path):
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, what, *words, ns=None):
        os.write(self._fd, " ".join([what, f"{ns or now():020}", *map(str, words)]).encode() + b"\n")


class Reader:
    """Feeds a Journal with what has been written since the last time."""

    def __init__(self, path):
        self._file, self._rest = open(path, "rb"), b""  # pylint: disable=consider-using-with
        self.journal = Journal()

    def read(self):
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        self.journal.feed(line.decode() for line in lines)
        return self.journal
