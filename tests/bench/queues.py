# SPDX-License-Identifier: MIT
"""Locks that are held until we say so, and waiters for them; and the log that all the commands write."""
import os
import random
import time

from processes import asleep
from support.proc import wait_until


def read_log(path):
    """[(what, id, ns)] of the sections in order of time."""
    if not path.exists():
        return []
    *whole, _ = path.read_text(encoding="ascii").split("\n")  # the last line may just be written
    lines = [line.split() for line in whole]
    return sorted(((what, name, int(ns)) for what, name, ns in lines), key=lambda entry: entry[2])


def new_log(bench, name):
    log = bench.directory / f"{name}.log"
    log.unlink(missing_ok=True)
    return log


def section(bench, log, name, usec=0):
    return [bench.helpers, "mark", str(log), name, str(usec)]


class Gate:
    """Commands stand before it until it is opened; also when this program dies, so that it leaves none behind."""

    def __init__(self, bench, name):
        self._bench, self.path, self.log = bench, bench.directory / f"{name}.gate", new_log(bench, name)
        os.mkfifo(self.path)
        self._writer = os.open(self.path, os.O_RDWR)

    def before(self, name):
        """A command that stands before it."""
        return [self._bench.helpers, "hold", str(self.log), name, str(self.path)]

    def standing(self):
        return sum(what == "begin" for what, *_ in read_log(self.log))

    def open(self):
        self.path.unlink()
        os.close(self._writer)


class Queue:
    """A holder, and waiters: in order of arrival if they come one at a time, else `at_once` together."""

    def __init__(self, bench, name, count, at_once=1):
        tool, lock = bench.tools[name], name.replace(" ", "-")
        self._gate = Gate(bench, lock)
        self.holder = bench.start(*tool(lock), *self._gate.before("holder"))
        wait_until(self._gate.standing, timeout=20, what="holder")
        self.waiters = []
        for first in range(0, count, at_once):
            some = [bench.start(*tool(lock), *section(bench, self._gate.log, str(number)))
                    for number in range(first, min(first + at_once, count))]
            wait_until(lambda: asleep([waiter.pid for waiter in some]), timeout=60, what="waiters settle")
            self.waiters += some
        # etcd tells a new waiter of changes only from the next tenth of a second on; and who asks every tenth of a second
        # is to be let go at any time between.
        time.sleep(0.2 + random.random() / 10)

    def kill_first(self, count):
        """The first waiters are gone, and have not said goodbye."""
        for waiter in self.waiters[:count]:
            waiter.kill()
            waiter.wait()
        del self.waiters[:count]

    def release(self):
        """Lets all of them run to their end. Returns (ms from each end to the next begin; how many were overtaken)."""
        self._gate.open()
        for process in (self.holder, *self.waiters):
            assert process.wait(120) == 0, process.args
        entries = read_log(self._gate.log)
        order = [int(name) for what, name, _ in entries if what == "begin" and name != "holder"]
        gaps = [(b[2] - a[2]) / 1e6 for a, b in zip(entries, entries[1:]) if a[0] == "end"]
        return gaps, sum(a > b for a, b in zip(order, order[1:]))


def quantile(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(part * len(values)))]
