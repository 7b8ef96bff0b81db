# SPDX-License-Identifier: MIT
"""Brings the faults of the plan about, one after another, and undoes them."""
import heapq
import queue
import threading
import time
from collections import Counter

import faults
import plan
from clocks import STEPS
from contenders import Snapshot
from support.proc import wait_until


class Storm(threading.Thread):
    def __init__(self, seed, store, clocks, contenders, writer, force):
        super().__init__(daemon=True)
        self._clocks = clocks
        weights = {"step_clock": 4} if clocks else {}
        self._plan = plan.faults(seed, {**weights, **faults.WEIGHTS, **store.weights},
                                 {**faults.LENGTHS, **store.lengths})
        self._store, self._contenders, self._writer, self._force = store, contenders, writer, force
        self._over, self._undo, self._count = threading.Event(), [], 0
        self._cut = set()  # hosts
        # Of its own for the faults of the store, as a server takes its time. A server dies with the thread that has started
        # it (setpriv --pdeathsig), so this one never ends.
        self._befalling, self._orders = threading.Event(), queue.SimpleQueue()
        threading.Thread(target=self._befall_all, daemon=True).start()
        self.kinds, self.error = Counter(), None

    def run(self):
        try:
            for fault in self._plan:
                if not self._rest(time.monotonic() + fault.gap_ms / 1000):
                    break
                if fault.kind == "step_clock":
                    self._step_clock(fault)
                elif fault.kind == "fade":
                    self._fade()
                elif fault.kind in self._store.on_hosts:
                    self._cut_off(fault)
                elif fault.kind in self._store.weights:
                    self._befall(fault)
                else:
                    self._strike(fault)
            while self._undo:
                self._undo_next()
            wait_until(lambda: not self._befalling.is_set(), timeout=180, what="the store is as it was")
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def _rest(self, until):
        """Undoes what is due meanwhile; False: it is over."""
        while True:
            due = min(until, self._undo[0][0]) if self._undo else until
            if self._over.wait(max(due - time.monotonic(), 0)):
                return False
            if due == until:
                return True
            self._undo_next()

    def _undo_next(self):
        _, number, undo = heapq.heappop(self._undo)
        then = undo()  # a fault may have a second part
        if then:
            self._undo_later(*then, number)
        else:
            self._writer.note("over", number)

    def _note(self, kind, target):
        self._count += 1
        self.kinds[kind] += 1
        self._writer.note("fault", self._count, kind, target)
        return self._count

    def _strike(self, fault):
        snapshot = Snapshot()
        prey = [one for one in (faults.Prey(run, snapshot) for run in self._contenders.runs())
                if faults.is_prey(fault.kind, one)]
        if not prey:
            return
        chosen = prey[int(fault.target ** 2 * len(prey))]  # rather the first: whose turn it is, for instance
        number = self._note(fault.kind, chosen.run.who)
        chosen.run.hit.add(fault.kind)
        undo = faults.strike(fault.kind, chosen, self._force)
        if undo:
            self._undo_later(fault.length_ms, undo, number)
        else:
            self._writer.note("over", number)

    def _undo_later(self, msec, undo, number):
        heapq.heappush(self._undo, (time.monotonic() + msec / 1000, number, undo))

    def _cut_off(self, fault):
        """A host; one fault at a time for each."""
        host = int(fault.target * plan.HOSTS)
        if host in self._cut:
            return
        self._cut.add(host)
        number = self._note(fault.kind, f"host{host}")
        undo = getattr(self._store, "begin_" + fault.kind)(host)
        self._undo_later(fault.length_ms, lambda: self._join(host, undo), number)

    def _step_clock(self, fault):
        host, way = divmod(int(fault.target * plan.HOSTS * len(STEPS)), len(STEPS))
        number = self._note("step_clock", f"host{host}")
        self._undo_later(fault.length_ms, self._clocks.begin_step(host, STEPS[way]), number)

    def _join(self, host, undo):
        undo()
        self._cut.discard(host)

    def _fade(self):
        """The host of a waiter that will hold for long becomes slow, and falls silent for longer than the lease as soon as
        the command runs: the last that was confirmed was confirmed late."""
        snapshot = Snapshot()
        run = next((run for run in self._contenders.runs() if run.step.hold_ms > 1.5 * run.step.ttl_ms and
                    run.host not in self._cut and snapshot.guard(run) and not snapshot.command(run)), None)
        if not run:
            return
        self._cut.add(run.host)
        run.hit.add("fade")
        number = self._note("fade", f"host{run.host}")
        slow = self._store.begin_delay(run.host, run.step.ttl_ms * 4 // 10)
        limit = time.monotonic() + 8

        def look():
            if run.popen.poll() is not None or time.monotonic() > limit:
                return 0, lambda: self._join(run.host, slow)
            if not Snapshot().command(run):
                return 50, look
            dark = self._store.begin_blackhole(run.host)
            return 1.5 * run.step.ttl_ms, lambda: self._join(run.host, dark)
        self._undo_later(50, look, number)

    def _befall(self, fault):
        """One at a time."""
        if self._befalling.is_set():
            return
        self._befalling.set()
        self._orders.put((self._note(fault.kind, "server"), fault))

    def _befall_all(self):
        while True:
            number, fault = self._orders.get()
            try:
                undo = getattr(self._store, "begin_" + fault.kind)()
                self._writer.note("struck", number)
                self._over.wait(fault.length_ms / 1000)
                undo()
                self._writer.note("over", number)
            except Exception as error:  # pylint: disable=broad-except
                self.error = error
            self._befalling.clear()

    def stop(self):
        self._over.set()
        self.join()
