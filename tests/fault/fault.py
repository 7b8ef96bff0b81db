# SPDX-License-Identifier: MIT
"""The fault test: contenders on real servers, a fault every few hundred milliseconds, and a checker that believes nothing
but the commands' own journal.

    fault.py --store local|direct|sentinel|cluster --klock PATH --job PATH [--seed N] [--holds N] [--limit SECONDS]
             [--clock PATH] [--finds LAW] [--keep]

One line and status 0: that many commands came to their end and no law was violated. Else the violations, the seed and a
timeline, and status 1. --finds: the other way round, for a klock with a fault of its own. --clock: clock.c, built, for steps of the wall clock; not with a static klock. --keep
leaves the journal."""
import argparse
import heapq
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))

# pylint: disable=wrong-import-position
import faults as processes_faults  # noqa: E402
import plan  # noqa: E402
from checker import Violation, check  # noqa: E402
from clocks import STEPS, Clocks, can_step  # noqa: E402
from contenders import Contenders, Snapshot  # noqa: E402
from journal import Reader, Writer, now  # noqa: E402
from stores import STORES  # noqa: E402
from support.proc import marked, wait_until  # noqa: E402
from support.runner import Klock  # noqa: E402

PATIENCE = 20  # seconds, for klocks to end by themselves


class Faults(threading.Thread):
    """Brings them about, one after another, and undoes them."""

    def __init__(self, seed, store, clocks, contenders, writer, force):
        super().__init__(daemon=True)
        self._clocks = clocks
        weights = {"step_clock": 4} if clocks else {}
        self._plan = plan.faults(seed, {**weights, **processes_faults.WEIGHTS, **store.weights},
                                 {**processes_faults.LENGTHS, **store.lengths})
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
        prey = [one for one in (processes_faults.Prey(run, snapshot) for run in self._contenders.runs())
                if processes_faults.is_prey(fault.kind, one)]
        if not prey:
            return
        chosen = prey[int(fault.target ** 2 * len(prey))]  # rather the first: whose turn it is, for instance
        number = self._note(fault.kind, chosen.run.who)
        chosen.run.hit.add(fault.kind)
        undo = processes_faults.strike(fault.kind, chosen, self._force)
        if undo:
            self._undo_later(fault.length_ms, undo, number)
        else:
            self._writer.note("over", number)

    def _undo_later(self, msec, undo, number):
        heapq.heappush(self._undo, (time.monotonic() + msec / 1000, number, undo))

    def _cut_off(self, fault):
        """A host; one fault at a time for each."""
        if fault.kind == "fade":
            return self._fade()
        host = int(fault.target * plan.HOSTS)
        if host not in self._cut:
            self._cut.add(host)
            number = self._note(fault.kind, f"host{host}")
            undo = getattr(self._store, "begin_" + fault.kind)(host)
            self._undo_later(fault.length_ms, lambda: self._join(host, undo), number)
        return None

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
                self._over.wait(fault.length_ms / 1000)
                undo()
                self._writer.note("over", number)
            except Exception as error:  # pylint: disable=broad-except
                self.error = error
            self._befalling.clear()

    def stop(self):
        self._over.set()
        self.join()


class Test:
    def __init__(self, options, directory):
        self._options, self._directory = options, directory
        self.path = os.path.join(directory, "journal")
        self._writer = Writer(self.path)
        self._reader = Reader(self.path, options.store)
        self._store = STORES[options.store](directory)
        os.mkdir(os.path.join(directory, "klock"))
        self._klock = Klock(os.path.abspath(options.klock), os.path.join(directory, "klock"), uuid.uuid4().hex,
                            self._store.url(0))
        job = os.path.abspath(options.job)
        self._pulses = [subprocess.Popen([job, "pulse", self.path, str(cpu)]) for cpu in sorted(os.sched_getaffinity(0))]
        clocks = None
        # Not with odd seeds on the local store, so that the order of its fences is checked too (excuses.fence).
        if options.clock and can_step(self._klock.path) and not (options.store == "local" and options.seed % 2):
            clocks = Clocks(directory, options.clock)

        def environment_of(host):
            return {"KLOCK_URL": self._store.url(host), **(clocks.environment(host) if clocks else {})}
        self._contenders = Contenders(options.seed, self._klock.path, job, self.path, self._writer, self._klock.env,
                                      environment_of, directory)
        force = ["env", *(f"{name}={value}" for name, value in self._klock.env.items()), self._klock.path, "force-release",
                 "--yes"]
        self.faults = Faults(options.seed, self._store, clocks, self._contenders, self._writer, force)
        self.begun = time.monotonic()
        self.seconds = 0.0

    def run(self):
        """The journal, and the violations."""
        self._contenders.start()
        self.faults.start()
        end = self.begun + self._options.limit
        journal, look_at = self._reader.read(), 0.0
        enough = float("inf") if self._options.finds else self._options.holds
        while journal.ended < enough and time.monotonic() < end and not self.faults.error:
            time.sleep(0.2)
            journal = self._reader.read()
            if self._options.finds and time.monotonic() >= look_at:
                look_at = time.monotonic() + 2
                if any(violation.law == self._options.finds for violation in check(journal).violations):
                    break
        self.seconds = time.monotonic() - self.begun
        self.faults.stop()
        killed = self._contenders.stop(PATIENCE)
        found = [] if self._options.finds else self._left(killed)
        journal = self._reader.read()
        verdict = check(journal)
        if self.faults.error:
            found.append(self._violation("test", f"a fault could not be brought about: {self.faults.error!r}"))
        if journal.ended < self._options.holds and not self._options.finds:
            found.append(self._violation("progress", f"only {journal.ended} holds in {self.seconds:.0f} s"))
        return journal, verdict._replace(violations=verdict.violations + found)

    @staticmethod
    def _violation(law, text, *whos):
        return Violation(law, now(), text, whos)

    def _left(self, killed):
        """Law 5: nobody, and nothing in the store."""
        found = [self._violation("stuck", f"did not even end on SIGTERM: {who}", who.split(":")[0]) for who in killed]
        try:
            wait_until(lambda: not marked(self._klock.mark), timeout=10, what="no process is left")
        except AssertionError as error:
            found.append(self._violation("orphan", f"{error}: {marked(self._klock.mark)}"))
        # Who takes each name once more clears away who has died.
        for name in plan.NAMES:
            done = self._klock.run("run", "--wait", "10", name, "--", "true", timeout=20)
            if done.status != 0:
                found.append(self._violation("stuck", f"{name} can't be taken: {done.status} {done.err}"))
        listed = self._klock.run("list", "--json").out.strip()
        if listed not in ("", "[]"):
            found.append(self._violation("left", f"klock list shows {listed}"))
        left = self._store.leftovers()
        if left:
            found.append(self._violation("left", f"in the store: {left}"))
        return found

    def end(self):
        for pulse in self._pulses:
            pulse.kill()
            pulse.wait()
        processes_faults.send(signal.SIGKILL, *(process.pid for process in marked(self._klock.mark)))
        self._store.end()


def summary(options, test, journal, verdict):
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(test.faults.kinds.items()))
    excused = ", ".join(f"{reason} {count}" for reason, count in sorted(verdict.excused.items())) or "none"
    return (f"fault.{options.store} seed {options.seed}: {journal.begun} holds, {journal.ended} to their end, in "
            f"{test.seconds:.0f} s; {sum(test.faults.kinds.values())} faults ({kinds}); excused: {excused}; "
            f"{len(verdict.violations)} violations")


def explain(journal, violation):
    holds = [journal.holds[who] for who in violation.whos if who in journal.holds]
    begin = min([hold.begin or violation.ns for hold in holds] + [violation.ns]) - 2_000_000_000
    lines = journal.timeline(begin, violation.ns + 1_000_000_000, {hold.who for hold in holds})
    return f"{violation.law}: {violation.text}\n{lines}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", choices=STORES, required=True)
    parser.add_argument("--klock", required=True)
    parser.add_argument("--job", required=True)
    parser.add_argument("--clock")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--holds", type=int, default=300)
    parser.add_argument("--limit", type=float, default=3600)
    parser.add_argument("--finds", choices=["exclusion", "fence", "order", "orphan", "truth"])
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="klock-fault-")
    test = None
    try:
        test = Test(options, directory)
        journal, verdict = test.run()
    finally:
        if test:
            test.end()
        if not options.keep:
            shutil.rmtree(directory, ignore_errors=True)
    print(summary(options, test, journal, verdict))
    if options.keep:
        print(f"the journal: {test.path}")
    if options.finds:
        hits = [violation for violation in verdict.violations if violation.law == options.finds]
        print(explain(journal, hits[0]) if hits else f"no violation of '{options.finds}' was found")
        return 0 if hits else 1
    for violation in verdict.violations[:5]:
        print(explain(journal, violation))
    if verdict.violations:
        print(f"again: fault.py --store {options.store} --seed {options.seed} --holds {options.holds}")
    return 1 if verdict.violations else 0


if __name__ == "__main__":
    sys.exit(main())
