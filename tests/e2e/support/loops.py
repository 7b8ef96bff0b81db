# SPDX-License-Identifier: MIT
"""Shells that call `klock run` again and again, and the sections that run under it."""
import contextlib
import os
import signal
import time

from support.proc import SLOW, processes

LOOP = 'while :; do "$0" run -q --ttl 1s "$@"; test -e stop && exit 0; done'


def send(pid, number):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


class Loops:
    def __init__(self, klock, sections):
        self.klock, self.sections = klock, sections
        self.loops = []

    def add(self, *words):
        """`words`: of `klock run`."""
        self.loops.append(self.klock.start_program("sh", "-c", LOOP, self.klock.path, *words))

    def klocks(self):
        shells = {loop.pid for loop in self.loops}
        return [p.pid for p in processes() if p.ppid in shells and p.comm.startswith("klock")]

    def kill_one(self, chance):
        klocks = self.klocks()
        if klocks:
            send(chance.choice(klocks), signal.SIGKILL)

    def stop(self, patience):
        self.klock.let("stop")
        for loop in self.loops:
            loop.wait(patience)

    def run_until(self, holds, disturb, seconds, patience=20):
        """Disturbs them until there were that many holds; none may have met another that it must not meet."""
        end = time.monotonic() + seconds * SLOW
        while len(self.sections.ended()) < holds and time.monotonic() < end:
            self.sections.check_overlaps()
            disturb()
        self.stop(patience)
        self.sections.check_overlaps()
        ended = self.sections.ended()
        assert len(ended) >= holds, f"only {len(ended)} holds in {seconds * SLOW} s"
        return ended
