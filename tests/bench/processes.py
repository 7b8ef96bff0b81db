# SPDX-License-Identifier: MIT
"""What /proc tells of processes: what they use, whether they rest, when they die."""
import contextlib
import os
import re
import selectors
import time

from support.proc import memory_of

TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")


def read(pid, name):
    """Empty when the process is gone."""
    return memory_of(pid, name).decode(errors="replace")


def stat(pid):
    """The fields from the state on; none when the process is gone."""
    return read(pid, "stat").rpartition(")")[2].split()


def children(pid):
    """Of all its threads."""
    with contextlib.suppress(OSError):
        return [int(child) for task in os.listdir(f"/proc/{pid}/task") for child in read(pid, f"task/{task}/children").split()]
    return []


def family(pid, but="helpers"):
    """The process and its descendants, without those of that name, which are the commands."""
    found, todo = [pid], [pid]
    while todo:
        for child in children(todo.pop()):
            if read(child, "comm").strip() != but:
                found.append(child)
                todo.append(child)
    return found


def command_of(pid):
    """The process of the command that a tool runs, which is one of our helpers."""
    return next((child for child in family(pid, but=None) if read(child, "comm").strip() == "helpers"), None)


def cpu_ms(pids):
    """Of all threads, and of children that are gone already (by the tick)."""
    total = 0.0
    for pid in pids:
        with contextlib.suppress(OSError):
            total += sum(int((read(pid, f"task/{task}/schedstat").split() or [0])[0]) for task in os.listdir(f"/proc/{pid}/task")) / 1e6
        total += sum(map(int, stat(pid)[13:15])) * TICK_MS
    return total


def pss_mib(pids):
    sizes = (re.search(r"^Pss: *(\d+)", read(pid, "smaps_rollup"), re.M) for pid in pids)
    return sum(int(size[1]) for size in sizes if size) / 1024


def ports_of(pids):
    """The local ports of their connections over TCP."""
    sockets = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for number in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    sockets.add(os.readlink(f"/proc/{pid}/fd/{number}"))
    lines = (line.split() for line in read("self", "net/tcp").splitlines()[1:])
    return {int(line[1].split(":")[1], 16) for line in lines if f"socket:[{line[9]}]" in sockets}


def asleep(pids):
    """They have had their round trips: all sleep, and none has used CPU between two looks."""
    looks = []
    for pause in (0.008, 0):
        looks.append([(stat(pid)[:1], cpu_ms([pid])) for pid in pids])
        time.sleep(pause)
    return looks[0] == looks[1] and all(state == ["S"] for state, _ in looks[0])


class Deaths:
    """Of processes that live when this is made."""

    def __init__(self, pids):
        self._selector = selectors.DefaultSelector()
        for pid in pids:
            self._selector.register(os.pidfd_open(pid), selectors.EVENT_READ, pid)

    def wait(self, timeout):
        """{pid: when it died, in ns of the monotonic clock}"""
        died, end = {}, time.monotonic() + timeout
        while self._selector.get_map():
            assert time.monotonic() < end, "a command lives on"
            for key, _ in self._selector.select(1):
                died[key.data] = time.monotonic_ns()
                self._selector.unregister(key.fileobj)
                os.close(key.fd)
        self._selector.close()
        return died
