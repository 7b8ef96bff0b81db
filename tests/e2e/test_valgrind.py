# SPDX-License-Identifier: MIT
"""Under valgrind: no descriptor stays open to the end, and no memory is read that was not written or is gone. What klock
starts is not looked into, its guard is."""
import glob
import os
import re
import signal

import pytest
from support.proc import wait_until

STATUS_OF_A_FAULT = 99


class Watched:
    def __init__(self, klock):
        self._klock, self._logs = klock, os.path.join(klock.directory, "valgrind")
        os.mkdir(self._logs)

    def start(self, *words):
        return self._klock.start_program("valgrind", "--quiet", "--track-fds=yes", f"--error-exitcode={STATUS_OF_A_FAULT}",
                                         f"--log-file={self._logs}/%p", self._klock.path, *words)

    def run(self, *words, status=0):
        running = self.start(*words)
        assert running.wait(60) == status, f"{words}: {running.err} {self._faults()}"
        self.look_at(running)

    def look_at(self, running):
        """At what became of klock's own process: the guard goes with what it has."""
        with open(os.path.join(self._logs, str(running.pid)), encoding="utf-8") as file:
            log = file.read()
        # What the test has given it (the files for its output) counts as open for valgrind.
        opened = re.findall(r"Open [^\n]*\n==\d+==    (?!<inherited)[^\n]*", log)
        assert not opened, f"{running.argv}: {opened}\n{log}"
        assert "FILE DESCRIPTORS" in log, "valgrind has not looked"
        assert not self._faults()

    def _faults(self):
        logs = {path: open(path, encoding="utf-8").read() for path in glob.glob(f"{self._logs}/*")}
        marks = ("uninitialised", "Invalid ", "overlap")
        return {path: log for path, log in logs.items() if any(mark in log for mark in marks)}


@pytest.fixture
def watched(store):
    return Watched(store)


def test_runs(watched):
    watched.run("run", "n", "--", "true")
    watched.run("run", "--also", "m", "--once", "k", "--unless", "false", "n", "--", "sh", "-c", "exit 3", status=3)
    watched.run("run", "--shared", "n", "--", "sleep", "1.5")
    watched.run("run", "--slots", "2", "--tree", "n", "--", "true")
    watched.run("run", "n", "--", "/nowhere/to/be/found", status=127)


def test_waiters(on_redis):  # on the local store valgrind stops all threads where one waits for a kernel lock
    watched, store = Watched(on_redis), on_redis
    holder = store.hold("n")
    watched.run("run", "-w", "500ms", "n", "--", "true", status=75)
    waiter = watched.start("run", "n", "--", "true")
    wait_until(lambda: store.waiters("n") == 1, timeout=60, what="queued")
    holder.send(signal.SIGTERM)
    assert waiter.wait(60) == 0, waiter.err
    watched.look_at(waiter)


def test_what_scripts_use(watched, store):
    taken = store.run("acquire", "--no-keeper", "--ttl", "600s", "n")  # valgrind knows no pidfd_open(2)
    token = re.search("KLOCK_TOKEN='?([^';]+)", taken.out).group(1)
    watched.run("check", "--token", token, "n")
    watched.run("renew", "--token", token, "n")
    watched.run("release", "--token", token, "n")
    watched.run("wait", "n")


def test_what_administrators_use(watched, store):
    holder = store.hold("n")
    for words in (["status", "n"], ["list"], ["log"], ["stats"], ["force-release", "--yes", "n"]):
        watched.run(*words)
    watched.run("doctor", status=1 if store.url.startswith("redis") else 0)  # a server that saves nothing
    assert holder.wait() != 0
