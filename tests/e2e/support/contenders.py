# SPDX-License-Identifier: MIT
"""Many who want one lock while servers fail, and what became of it."""
import os
import threading

from .proc import wait_until


class Contenders:
    """Each takes the lock "n" again and again, and writes down its fence and when it was inside."""

    def __init__(self, klock, count=10, ttl="4s"):
        self.klock, self.ttl = klock, ttl
        self.path = os.path.join(klock.directory, "sections")
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._contend) for _ in range(count)]

    def _contend(self):
        section = (f"printf 'in %s %s\\n' $KLOCK_FENCE $(date +%s%N) >>{self.path}; sleep 0.02;"
                   f" printf 'out %s %s\\n' $KLOCK_FENCE $(date +%s%N) >>{self.path}")
        while not self._stop.is_set():
            self.klock.run("run", "-q", "--ttl", self.ttl, "--store-timeout", "30s", "n", "--", "sh", "-c", section,
                           timeout=120)

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        self.go_on(5)
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _lines(self):
        try:
            with open(self.path, encoding="ascii") as file:
                return [line.split() for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []

    def fences(self):
        return [int(fence) for what, fence, _ in self._lines() if what == "in"]

    def go_on(self, count, timeout=90):
        """Until `count` more were inside."""
        aim = len(self.fences()) + count
        wait_until(lambda: len(self.fences()) >= aim, timeout=timeout, what="they go on")

    def overlaps(self):
        """How often one came while another was inside, or had a fence that was not above all before."""
        inside, found, last = set(), 0, 0
        for what, fence, _ in sorted(self._lines(), key=lambda line: int(line[2])):
            if what == "out":
                inside.discard(fence)
                continue
            found += bool(inside) or int(fence) <= last
            last = max(last, int(fence))
            inside.add(fence)
        return found
