# SPDX-License-Identifier: MIT
"""Readers, writers, slots and pairs of locks at once, while klocks are killed and the server restarts."""
import random
import time

from support.loops import Loops
from support.proc import SLOW, wait_until
from support.sections import Sections

HOLDS = 3000 if SLOW <= 1 else 300
LIMIT = 240  # seconds; an idle machine needs a fifth


class Crowd(Loops):
    """Thirty of them; the command knows who may run beside it."""

    def __init__(self, klock, child, log):
        super().__init__(klock, Sections(child, log))
        for i in range(10):
            self.add_kind(f"r{i}", ["-s", "ab"[i % 2]], ["ab"[i % 2] + "=s"])
        for i in range(7):
            self.add_kind(f"w{i}", ["ab"[i % 2]], ["ab"[i % 2] + "=x"])
        for i in range(7):
            self.add_kind(f"s{i}", ["--slots", "3", "ab"[i % 2]], ["ab"[i % 2] + "=3"])
        for i in range(6):
            pair = "ab" if i % 2 else "ba"
            self.add_kind(f"p{i}", ["--also", pair[1], pair[0]], ["a=x", "b=x"])

    def add_kind(self, name, options, held):
        self.add(*options, "--", *self.sections.together(name, 1, *held))

    def run(self, disturb):
        ended = self.run_until(HOLDS, disturb, LIMIT, 30)
        for kind in "rwsp":
            assert [name for name in ended if name.startswith(kind)], f"none of {kind} ever ran"


def test_nobody_runs_beside_whom_he_must_not(store, child, tmp_path):
    chance = random.Random(4)
    crowd = Crowd(store, child, tmp_path / "log")

    def disturb():
        time.sleep(chance.uniform(0.02, 0.2))
        crowd.kill_one(chance)

    crowd.run(disturb)
    for name in "ab":
        wait_until(lambda: store.is_free(name))


def test_nobody_runs_beside_whom_he_must_not_while_the_server_restarts(make_klock, make_redis, child, tmp_path):
    server = make_redis("--appendonly", "yes", "--appendfsync", "always")
    chance = random.Random(5)
    crowd = Crowd(make_klock(server.url), child, tmp_path / "log")

    def disturb():
        time.sleep(chance.uniform(0.02, 0.2))
        crowd.kill_one(chance)
        if chance.random() < 0.05:
            server.restart()

    crowd.run(disturb)


def test_a_writer_waits_for_the_readers_before_it_alone(store, sections):
    """Readers overlap for ever; the writer gets in when those who ran before it are done."""
    readers = Loops(store, sections)
    for i in range(4):
        readers.add("-s", "n", "--", *sections.together(f"r{i}", 300, "n=s"))
    wait_until(lambda: len(set(sections.ended())) == 4, what="each of them has read")
    for _ in range(5):
        begun = time.monotonic()
        done = store.run("run", "n", "--", *sections.together("w", 1, "n=x"))
        assert done.status == 0, done.err
        assert time.monotonic() - begun < 0.3 * 2 + 1.0 * SLOW
    readers.stop(20)
