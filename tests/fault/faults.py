# SPDX-License-Identifier: MIT
"""The faults that befall processes of klock: what each does, and how it is undone. Those of servers and connections are
methods of the stores (stores.py)."""
import contextlib
import os
import signal
import subprocess

WEIGHTS = {"kill_klock": 6, "freeze_klock": 8, "freeze_waiter": 8, "kill_waiter": 4, "kill_guard": 3, "freeze_guard": 2,
           "kill_command": 3, "freeze_command": 3, "term_klock": 8, "freeze_host": 2, "kill_host": 3, "force": 3}
# Frozen: shorter than a lease, and longer than the longest of leases and grants (ms).
LENGTHS = {"freeze_klock": (200, 3000), "freeze_waiter": (600, 2500), "freeze_guard": (200, 3000),
           "freeze_command": (100, 2500), "freeze_host": (500, 3500), "step_clock": (200, 4000)}


def send(number, *pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def send_group(number, group):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


class Prey:
    """One run with its processes, at the moment of the fault; `command` is None while it waits."""

    def __init__(self, run, snapshot):
        self.run, self.klock = run, run.pid
        self.guard, command = snapshot.guard(run), snapshot.command(run)
        self.command, self.group = (command.pid, command.pgrp) if command else (None, None)


def is_prey(kind, prey):
    hit = prey.run.hit
    # Another fault would end what is to be seen of a lease that fades away.
    if not prey.guard or prey.run.popen.poll() is not None or "fade" in hit:
        return False
    if kind in ("freeze_waiter", "kill_waiter"):
        return prey.command is None and not hit
    if kind == "force":
        return prey.command is not None
    # Both klock and its guard can't be away: that is the whole host.
    if kind in ("kill_guard", "freeze_guard", "freeze_host"):
        return prey.command is not None and not hit - {"freeze_command"}
    if "freeze_guard" in hit or "freeze_host" in hit or "kill_guard" in hit:
        return False
    return prey.command is not None


def strike(kind, prey, force):
    """Returns what undoes it, or None. `force`: the words of klock that release a name by force."""
    return globals()["_" + kind](prey, force)


def _kill_klock(prey, _force):
    send(signal.SIGKILL, prey.klock)


_kill_waiter = _kill_klock


def _term_klock(prey, _force):
    send(signal.SIGTERM, prey.klock)


def _freeze_klock(prey, _force):
    send(signal.SIGSTOP, prey.klock)
    return lambda: send(signal.SIGCONT, prey.klock)


_freeze_waiter = _freeze_klock


def _kill_guard(prey, _force):
    send(signal.SIGKILL, prey.guard)


def _freeze_guard(prey, _force):
    send(signal.SIGSTOP, prey.guard)
    return lambda: send(signal.SIGCONT, prey.guard)


def _kill_command(prey, _force):
    """What it has left in the background is no business of klock's without --tree; so it goes along."""
    send(signal.SIGKILL, prey.command) if prey.run.step.tree else send_group(signal.SIGKILL, prey.group)


def _freeze_command(prey, _force):
    send_group(signal.SIGSTOP, prey.group)
    return lambda: send_group(signal.SIGCONT, prey.group)


def _freeze_host(prey, _force):
    """As a machine is suspended, but with a clock that goes on."""
    send(signal.SIGSTOP, prey.klock, prey.guard)
    send_group(signal.SIGSTOP, prey.group)

    def thaw():
        send(signal.SIGCONT, prey.guard, prey.klock)
        send_group(signal.SIGCONT, prey.group)
    return thaw


def _kill_host(prey, _force):
    """As a machine loses power: neither klock nor its guard says goodbye."""
    send(signal.SIGSTOP, prey.klock)  # not the guard: the kernel lets it go on when klock has died
    send(signal.SIGKILL, prey.guard)
    send_group(signal.SIGKILL, prey.group)
    send(signal.SIGKILL, prey.klock)


def _force(prey, force):
    """An administrator's wish; asked like that, the command ends before anybody else begins."""
    popen = subprocess.Popen([*force, prey.run.step.name], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)

    def end():
        try:
            popen.wait(5)
        except subprocess.TimeoutExpired:
            popen.kill()
            popen.wait()
    return end
