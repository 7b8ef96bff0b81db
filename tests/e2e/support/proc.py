# SPDX-License-Identifier: MIT
"""Looks at processes through /proc, and waits for things with a deadline."""
import os
import signal
import time
from typing import NamedTuple

SLOW = float(os.environ.get("KLOCK_TEST_SLOW", "1"))


def wait_until(condition, timeout=5.0, what="the condition", pause=0.005):
    """Polls until `condition()` is true and returns its value; fails after `timeout` seconds (times SLOW)."""
    deadline = time.monotonic() + timeout * SLOW
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"{what}: not within {timeout * SLOW:g} s"
        time.sleep(pause)


def holds_for(condition, seconds):
    """True if `condition()` is true at every look during `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not condition():
            return False
        time.sleep(0.005)
    return True


class Process(NamedTuple):
    pid: int
    comm: str
    state: str
    ppid: int
    pgrp: int
    session: int


def process(pid):
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read().decode(errors="replace")
    except OSError:
        return None
    head, tail = text.split("(", 1)[1].rsplit(")", 1)
    state, ppid, pgrp, session = tail.split()[:4]
    return Process(int(pid), head, state, int(ppid), int(pgrp), int(session))


def processes():
    found = (process(name) for name in os.listdir("/proc") if name.isdigit())
    return [p for p in found if p and p.state not in "ZX"]


def alive(pid):
    p = process(pid)
    return p is not None and p.state not in "ZX"


def children(pid):
    return [p for p in processes() if p.ppid == pid]


def descendants(pid):
    everyone, found, todo = processes(), [], [pid]
    while todo:
        parent = todo.pop()
        mine = [p for p in everyone if p.ppid == parent]
        found += mine
        todo += [p.pid for p in mine]
    return found


def group(pgid):
    return [p for p in processes() if p.pgrp == pgid]


def guard_of(klock_pid):
    """The guard process of a klock, or None."""
    return next((p.pid for p in children(klock_pid) if p.comm == "lock-guard"), None)


def command_of(klock_pid):
    """The command's process, or None."""
    guard = guard_of(klock_pid)
    return next((p.pid for p in children(guard) if p.comm != "lock-guard"), None) if guard else None


def marked(mark):
    """Live processes that were started with `mark` in their environment, and those that descend from them."""
    found = []
    for p in processes():
        try:
            with open(f"/proc/{p.pid}/environ", "rb") as file:
                if mark.encode() in file.read():
                    found.append(p)
        except OSError:
            pass
    return found


def wipe_out(running):
    """Ends a run as a host ends that loses power: neither klock nor its guard says goodbye."""
    guard, command = guard_of(running.pid), command_of(running.pid)
    # Not the guard first: the kernel lets what is stopped go on when its parent has died.
    os.kill(running.pid, signal.SIGSTOP)
    os.kill(guard, signal.SIGKILL)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    wait_until(lambda: not alive(guard) and not alive(command), what="the command has died with its guard")


def close_terminal(tty):
    """Ends the program on it, however long the system takes for that: pexpect's own way gives up after a tenth of a
    second."""
    if tty.ptyproc.fileobj.closed:
        return
    if tty.isalive():
        tty.kill(signal.SIGKILL)
        wait_until(lambda: not tty.isalive(), timeout=20, what="the program has ended")
    tty.close()


def memory_of(pid, name):
    """A raw file of /proc/PID, empty when the process is gone."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""


def status_field(pid, name):
    for line in memory_of(pid, "status").decode().splitlines():
        if line.startswith(name + ":"):
            return line.split(":", 1)[1].strip()
    return ""
