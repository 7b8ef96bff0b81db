# SPDX-License-Identifier: MIT
"""The contenders: threads that call `klock run` again and again, and what of it runs right now."""
import os
import subprocess
import threading
import time

from plan import CONTENDERS, HOSTS, NAMES, steps
from support.proc import descendants, memory_of, processes, status_field


class Run:
    """One `klock run`. `hit`: the kinds of faults that it has had."""

    def __init__(self, who, step, popen):
        self.who, self.step, self.popen = who, step, popen
        self.started, self.hit = time.monotonic(), set()

    @property
    def host(self):
        return int(self.who[1:].split(".")[0]) % HOSTS

    @property
    def pid(self):
        return self.popen.pid


class Snapshot:
    """The processes of a moment."""

    def __init__(self):
        self._children = {}
        for process in processes():
            self._children.setdefault(process.ppid, []).append(process)

    def guard(self, run):
        return next((p.pid for p in self._children.get(run.pid, []) if p.comm == "lock-guard"), None)

    def command(self, run):
        """Its process, once it is itself; or what it has left behind, which is the guard's child then."""
        guard = self.guard(run)
        found = self._children.get(guard, []) if guard else []
        return next((p for p in found if p.comm != "lock-guard"), None)


class Contenders:
    def __init__(self, seed, klock, job, journal, writer, environment, environment_of, directory, modes):
        """`environment_of`: what the host of that number has besides; `modes`: those that the store has."""
        self._seed, self._klock, self._job, self._journal, self._writer = seed, klock, job, journal, writer
        self._modes = modes
        self._environment, self._environment_of, self._directory = environment, environment_of, directory
        self._lock, self._runs, self._stop = threading.Lock(), {}, threading.Event()
        self._threads = [threading.Thread(target=self._contend, args=(number,), daemon=True) for number in range(CONTENDERS)]

    def start(self):
        for thread in self._threads:
            thread.start()

    def runs(self):
        """The crowded lock's first, and in each lock who came first."""
        with self._lock:
            return sorted(self._runs.values(), key=lambda run: (list(NAMES).index(run.step.name), run.started))

    def _contend(self, number):
        env = {**self._environment, **self._environment_of(number % HOSTS)}
        for count, step in enumerate(steps(self._seed, number, self._modes)):
            if self._stop.wait(step.pause_ms / 1000):
                return
            self._run(number, f"c{number}.{count}", step, env)

    def _run(self, number, who, step, env):
        argv = [self._klock, *step.words(), "--", self._job, "hold", self._journal, who, step.name, step.mode,
                str(step.hold_ms), step.kind]
        if step.limit:
            argv = ["prlimit", step.limit, *argv]
        self._writer.note("start", who, step.name, step.mode, step.ttl_ms, step.kill_after_ms)
        with open(os.path.join(self._directory, "errors"), "ab") as errors:
            # Away from a terminal, so that the command has a group of its own.
            popen = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors,
                                     start_new_session=True)
        with self._lock:
            self._runs[number] = Run(who, step, popen)
        popen.wait()
        with self._lock:
            del self._runs[number]
        self._writer.note("exit", who, popen.returncode)
        if popen.returncode not in (0, 42, 75):
            time.sleep(0.02)  # it failed at once, and so will the next one

    def stop(self, patience):
        """None of them begins anew. Those that still run after `patience` (s) are asked to end, and then killed; returns
        who had to be, and where its processes were."""
        self._stop.set()
        end = time.monotonic() + patience
        for ask in (subprocess.Popen.terminate, subprocess.Popen.kill):
            while self.runs() and time.monotonic() < end:
                time.sleep(0.02)
            left = self.runs()
            stuck = [f"{run.who}: {state(run)}" for run in left]
            for run in left:
                ask(run.popen)
            end = time.monotonic() + patience
        for thread in self._threads:
            thread.join()
        return stuck


def state(run):
    """Of its processes: name, state and where they wait."""
    found = []
    for pid in [run.pid, *(p.pid for p in descendants(run.pid))]:
        status = [status_field(pid, name) for name in ("Name", "State", "SigPnd")]
        found.append(" ".join([str(pid), *status, memory_of(pid, "wchan").decode(), memory_of(pid, "syscall").decode()[:40]]))
    return "; ".join(found)
