# SPDX-License-Identifier: MIT
"""The fault test: contenders on real servers, a fault every few hundred milliseconds, and a checker that believes nothing
but the commands' own journal.

    fault.py --store local|direct|sentinel|cluster|redlock [--seed N] [--holds N] [--limit SECONDS] [--klock PATH]
             [--finds LAW] [--keep]

One line and status 0: that many commands came to their end and no law was violated. Else the violations, the seed and a
timeline, and status 1. --finds: the other way round, for a klock with a fault of its own. --keep leaves the journal. The
programs are those of build/dev if not named; a static klock gets no steps of the wall clock."""
import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.join(HERE, "../../build/dev")
sys.path.insert(0, os.path.join(HERE, "../e2e"))

# pylint: disable=wrong-import-position
import faults  # noqa: E402
import plan  # noqa: E402
from checker import Violation, check  # noqa: E402
from clocks import Clocks, can_step  # noqa: E402
from contenders import Contenders  # noqa: E402
from journal import Reader, Writer, now  # noqa: E402
from majority import Redlock  # noqa: E402
from replicated import Cluster, Sentinel  # noqa: E402
from storm import Storm  # noqa: E402
from stores import Direct, Local  # noqa: E402
from support.proc import marked, wait_until  # noqa: E402
from support.runner import Klock  # noqa: E402

STORES = {"local": Local, "direct": Direct, "sentinel": Sentinel, "cluster": Cluster, "redlock": Redlock}
PATIENCE = 20  # seconds, for klocks to end by themselves


class Test:
    def __init__(self, options, directory):
        self._options, self._directory = options, directory
        self.path = os.path.join(directory, "journal")
        self._writer = Writer(self.path)
        self._writer.note("clock", time.time_ns() - now())
        self._reader = Reader(self.path)
        self._store = STORES[options.store](directory)
        os.mkdir(os.path.join(directory, "klock"))
        self._klock = Klock(os.path.abspath(options.klock), os.path.join(directory, "klock"), uuid.uuid4().hex,
                            self._store.url(0))
        job = os.path.abspath(options.job)
        self._pulses = [subprocess.Popen([job, "pulse", self.path, str(cpu)]) for cpu in sorted(os.sched_getaffinity(0))]
        clocks = Clocks(directory, options.clock) if can_step(self._klock.path) else None

        def environment_of(host):
            return {"KLOCK_URL": self._store.url(host), **(clocks.environment(host) if clocks else {})}
        self._contenders = Contenders(options.seed, self._klock.path, job, self.path, self._writer, self._klock.env,
                                      environment_of, directory, self._store.modes)
        force = ["env", *(f"{name}={value}" for name, value in self._klock.env.items()), self._klock.path, "force-release",
                 "--yes"]
        self.storm = Storm(options.seed, self._store, clocks, self._contenders, self._writer, force)
        self.begun = time.monotonic()
        self.seconds = 0.0

    def run(self):
        """The journal, and the violations."""
        self._contenders.start()
        self.storm.start()
        end = self.begun + self._options.limit
        journal, look_at = self._reader.read(), 0.0
        enough = float("inf") if self._options.finds else self._options.holds
        while journal.ended < enough and time.monotonic() < end and not self.storm.error:
            time.sleep(0.2)
            journal = self._reader.read()
            if self._options.finds and time.monotonic() >= look_at:
                look_at = time.monotonic() + 2
                if any(violation.law == self._options.finds for violation in check(journal, self._store.in_order).violations):
                    break
        self.seconds = time.monotonic() - self.begun
        self.storm.stop()
        killed = self._contenders.stop(PATIENCE)
        found = [] if self._options.finds else self._left(killed)
        journal = self._reader.read()
        verdict = check(journal, self._store.in_order)
        if self.storm.error:
            found.append(self._violation("test", f"a fault could not be brought about: {self.storm.error!r}"))
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
        faults.send(signal.SIGKILL, *(process.pid for process in marked(self._klock.mark)))
        self._store.end()


def summary(options, test, journal, verdict):
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(test.storm.kinds.items()))
    excused = ", ".join(f"{reason} {count}" for reason, count in sorted(verdict.excused.items())) or "none"
    return (f"fault.{options.store} seed {options.seed}: {journal.begun} holds, {journal.ended} to their end, in "
            f"{test.seconds:.0f} s; {sum(test.storm.kinds.values())} faults ({kinds}); excused: {excused}; "
            f"{len(verdict.violations)} violations")


def explain(journal, violation):
    holds = [journal.holds[who] for who in violation.whos if who in journal.holds]
    begin = min([hold.begin or violation.ns for hold in holds] + [violation.ns]) - 2_000_000_000
    lines = journal.timeline(begin, violation.ns + 1_000_000_000, {hold.who for hold in holds})
    return f"{violation.law}: {violation.text}\n{lines}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", choices=STORES, required=True)
    parser.add_argument("--klock", default=f"{BUILD}/klock")
    parser.add_argument("--job", default=f"{BUILD}/tests/fault/klock_fault_job")
    parser.add_argument("--clock", default=f"{BUILD}/tests/fault/klock_fault_clock.so")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--holds", type=int, default=300)
    parser.add_argument("--limit", type=float, default=3600)
    parser.add_argument("--finds", choices=["exclusion", "fence", "order", "orphan", "truth"])
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    # Nothing frozen may stay behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
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
