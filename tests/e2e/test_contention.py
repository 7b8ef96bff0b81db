# SPDX-License-Identifier: MIT
"""Many contenders while klocks are killed and the server restarts: never two at once."""
import random
import signal
import threading
import time

from support.loops import Loops, send
from support.proc import SLOW, wait_until

HOLDS = 2000 if SLOW <= 1 else 200
LIMIT = 180  # seconds; an idle machine needs a tenth


class Contenders(Loops):
    """Eight of them, for one lock."""

    def __init__(self, klock, sections):
        super().__init__(klock, sections)
        for i in range(8):
            self.add("n", "--", *sections.command(f"c{i}", 1))

    def run_until(self, *limits):
        super().run_until(*limits)
        self.sections.check()


def test_no_overlap_while_klocks_are_killed(store, sections):
    chance = random.Random(1)
    contenders = Contenders(store, sections)

    def disturb():
        time.sleep(chance.uniform(0.01, 0.1))
        contenders.kill_one(chance)

    contenders.run_until(HOLDS, disturb, LIMIT)
    wait_until(lambda: store.is_free("n"))


def test_no_overlap_while_klocks_are_killed_and_the_server_restarts(make_klock, make_redis, sections):
    server = make_redis("--appendonly", "yes", "--appendfsync", "always")
    chance = random.Random(2)
    contenders = Contenders(make_klock(server.url), sections)

    def disturb():
        time.sleep(chance.uniform(0.02, 0.2))
        contenders.kill_one(chance)
        if chance.random() < 0.1:
            server.restart()

    contenders.run_until(HOLDS, disturb, LIMIT)


def test_no_overlap_while_klocks_are_frozen(on_redis, sections):
    """A frozen klock loses its command or its grant; thawed, it must not run on."""
    # LeakSanitizer hangs for ever in a process that is frozen while it looks for leaks.
    on_redis.env["ASAN_OPTIONS"] = on_redis.env.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
    chance = random.Random(3)
    contenders = Contenders(on_redis, sections)
    frozen = []

    def thaw():
        for pid in frozen:
            send(pid, signal.SIGCONT)
        frozen.clear()

    def disturb():
        time.sleep(chance.uniform(0.02, 0.2))
        klocks = contenders.klocks()
        if len(frozen) >= 3:
            time.sleep(1.3)
            thaw()
        elif klocks:
            frozen.append(chance.choice(klocks))
            send(frozen[-1], signal.SIGSTOP)

    timer = threading.Timer(200 * SLOW, thaw)
    timer.daemon = True
    timer.start()
    try:
        end = time.monotonic() + 15
        while time.monotonic() < end:
            disturb()
    finally:
        thaw()
        timer.cancel()
    contenders.run_until(1, lambda: None, 5)
