# SPDX-License-Identifier: MIT
"""klock wait: until the lock is free, without taking it."""
import os
import signal

import pytest
from support.proc import SLOW, status_field, wait_until


def test_free_at_once(store):
    done = store.run("wait", "n")
    assert (done.status, done.out, done.err) == (0, "", "") and done.seconds < 1 * SLOW
    assert store.is_free("n")


def test_waits_for_the_end(store):
    holder = store.hold("n")
    waiter = store.start("wait", "n")
    wait_until(lambda: waiter.popen.poll() is None, what="it waits")
    assert store.waiters("n") == 0
    holder.send(signal.SIGTERM)
    assert waiter.wait(3) == 0 and waiter.out + waiter.err == ""


def test_limit(store):
    store.hold("n")
    for words, status in ((["-w", "300ms"], 75), (["-w", "0"], 75), (["-w", "0", "-E", "3"], 3)):
        done = store.run("wait", *words, "n")
        assert done.status == status and done.out == "" and "busy, held by" in done.err and done.err.count("\n") == 1
        assert done.seconds < 2 * SLOW
    assert store.run("wait", "-q", "-w", "0", "n").err == ""


def test_lease_that_ends(on_redis, client):
    client.set("klock:n", "somebody", px=600)
    assert on_redis.run("wait", "n").status == 0
    assert not client.exists("klock:n")


def test_cooldown_counts(store):
    assert store.run("run", "--min-hold", "700ms", "n", "true").status == 0
    assert store.run("wait", "-w", "0", "n").status == 75
    done = store.run("wait", "n")
    assert done.status == 0
    assert store.run("run", "-n", "n", "true").status == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted(store, number):
    store.hold("n")
    waiter = store.start("wait", "-v", "n")
    wait_until(lambda: "waiting for" in waiter.err, what="it waits")
    waiter.send(number)
    assert waiter.wait() == 128 + number and waiter.out == ""


def test_files_say_nothing_about_it(on_local):
    holder = on_local.hold("n")
    with open(os.path.join(on_local.directory, "waiting.toml"), "w", encoding="utf-8") as file:
        file.write("nonblock = true\nconflict-exit-code = 0\n")
    config = ["--config", file.name]
    assert on_local.run("wait", "-w", "100ms", *config, "n").status == 75
    waiter = on_local.start("wait", "-v", *config, "n")
    wait_until(lambda: "waiting for" in waiter.err, what="it waits")
    holder.send(signal.SIGTERM)
    assert waiter.wait() == 0


def test_limit_with_a_silent_server(on_redis, redis):
    redis.freeze()
    done = on_redis.run("wait", "-w", "500ms", "n")
    assert done.status == 69 and 0.4 < done.seconds < 1 + SLOW
    waiter = on_redis.start("wait", "-w", "0", "n")
    wait_until(lambda: status_field(waiter.pid, "SigBlk") != "0000000000000000", what="it is there for signals")
    waiter.send(signal.SIGTERM)
    assert waiter.wait(3) == 128 + signal.SIGTERM
    redis.thaw()


def test_server_that_vanishes_and_comes_back(on_redis, redis):
    on_redis.hold("n", "--on-lost", "warn")
    waiter = on_redis.start("wait", "-v", "n")
    wait_until(lambda: "waiting for" in waiter.err, what="it waits")
    redis.restart()
    assert waiter.wait() == 0


def test_mistakes(on_local):
    for words in ([], [""], ["a", "b"], ["a b"], ["-w", "x", "n"], ["--bogus", "n"]):
        done = on_local.run("wait", *words)
        assert done.status == 64 and done.out == "" and done.err.count("\n") == 1
    assert on_local.run("wait", "--url", "redis://127.0.0.1:1", "n").status == 69
