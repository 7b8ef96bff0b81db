# SPDX-License-Identifier: MIT
"""--also: several locks, all or none, in one order for everybody."""
import json
import os
import random
import signal
import time

import pytest
from support.proc import SLOW, alive, guard_of, holds_for, wait_until


def hold_both(store, *options, command="exec sleep 1000"):
    return store.hold("a", "--also", "b", *options, command=command)


def both_are_free(store):
    return store.is_free("a") and store.is_free("b")


def test_both_are_held_and_released(every_store):
    holder = hold_both(every_store)
    for name in ("a", "b"):
        assert every_store.run("run", "-n", name, "--", "true").status == 75
    holder.send(signal.SIGTERM)
    assert holder.wait() == 143 and holder.err == "" and both_are_free(every_store)


def test_status_and_silence(store):
    done = store.run("run", "--also", "b", "--also", "c", "a", "--", "sh", "-c", "echo ran; exit 6")
    assert (done.status, done.out, done.err) == (6, "ran\n", "")


def test_environment_and_outcome_are_those_of_name(store, tmp_path):
    report = tmp_path / "outcome"
    done = store.run("run", "--outcome-file", str(report), "--also", "a", "z", "--", "sh", "-c",
                     "echo $KLOCK_NAME $KLOCK_TOKEN $KLOCK_FENCE")
    name, token, fence = done.out.split()
    told = json.loads(report.read_text())
    assert name == told["name"] == "z" and int(fence) == told["fence"] and len(token) == 32


def test_the_same_name_again_is_the_same_lock(store):
    assert store.run("run", "-n", "--also", "a", "--also", "b", "--also", "b", "a", "--", "true").status == 0


@pytest.mark.parametrize("busy", ["a", "b"])
@pytest.mark.parametrize("words", [("--also", "b", "a"), ("--also", "a", "b")])
@pytest.mark.parametrize("waiting", [("-n",), ("-w", "0.3")])
def test_one_busy_leaves_nothing_held(store, busy, words, waiting):
    store.hold(busy)
    done = store.run("run", *waiting, *words, "--", "echo", "ran")
    assert done.status == 75 and done.out == "" and done.err.startswith(f"klock: {busy}: busy")
    other = "b" if busy == "a" else "a"
    assert store.is_free(other) and store.waiters(busy) == 0


def test_min_hold_is_not_for_an_attempt_that_was_given_up(store):
    store.hold("b")
    assert store.run("run", "-n", "--min-hold", "1h", "--also", "b", "a", "--", "true").status == 75
    assert store.is_free("a")
    assert store.run("run", "-w", "0.3", "--min-hold", "1h", "--also", "b", "a", "--", "true").status == 75
    assert store.is_free("a")


def test_min_hold_keeps_both_names(store):
    assert store.run("run", "--min-hold", "1h", "--also", "b", "a", "--", "true").status == 0
    assert [store.state(name)["state"] for name in ("a", "b")] == ["cooldown"] * 2


def test_waits_for_the_second_and_keeps_the_first(store):
    blocker = store.hold("b")
    waiter = store.queue("b", 1, "echo", "ran", options=("--also", "a"))[0]
    assert not store.is_free("a") and holds_for(lambda: waiter.status is None, 0.2)
    blocker.send(signal.SIGTERM)
    assert waiter.wait() == 0 and waiter.out == "ran\n" and both_are_free(store)


def test_first_is_renewed_while_we_wait_for_the_second(on_redis, client):
    blocker = on_redis.hold("b")
    waiter = on_redis.queue("b", 1, "echo", "ran", options=("--also", "a", "--ttl", "2s"))[0]
    token = client.get("klock:a")
    assert token and holds_for(lambda: client.get("klock:a") == token, 4)
    blocker.send(signal.SIGTERM)
    assert waiter.wait() == 0 and waiter.out == "ran\n"


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP"])
def test_interrupted_while_waiting_for_the_second(store, name):
    store.hold("b")
    waiter = store.queue("b", 1, options=("--also", "a"))[0]
    waiter.send(getattr(signal, f"SIG{name}"))
    assert waiter.wait() == 128 + getattr(signal, f"SIG{name}")
    assert store.is_free("a") and store.waiters("b") == 0


def test_forced_release_of_the_first_while_we_wait_for_the_second_ends_the_run(store):
    store.hold("b")
    waiter = store.queue("b", 1, "echo", "ran", options=("--also", "a"))[0]
    assert store.run("force-release", "--yes", "--reason", "why", "a").status == 0
    assert waiter.wait() == 79 and waiter.out == ""
    assert waiter.err.startswith("klock: a: ") and "why" in waiter.err
    assert store.is_free("a") and store.waiters("b") == 0


def test_first_is_lost_while_we_wait_for_the_second_and_another_one_has_it(on_redis, client):
    blocker = on_redis.hold("b")
    waiter = on_redis.queue("b", 1, "echo", "ran", options=("--also", "a", "--ttl", "2s"))[0]
    client.set("klock:a", "foreign", px=int(3000 * SLOW))
    wait_until(lambda: on_redis.waiters("b") == 0, what="it gave up its place")
    blocker.send(signal.SIGTERM)
    assert holds_for(lambda: waiter.status is None or not client.exists("klock:a"), 1)
    assert waiter.wait(20) == 0 and waiter.out == "ran\n"


def test_limit_holds_over_both(store):
    store.hold("b")
    before = time.monotonic()
    waiter = store.start("run", "-w", "1s", "--also", "a", "b", "--", "true")
    wait_until(lambda: store.waiters("b") == 1, what="waits for b")
    assert waiter.wait() == 75 and 0.95 < time.monotonic() - before < 1 + 1 * SLOW


@pytest.mark.parametrize("name", ["a", "b"])
def test_forced_release_of_either_stops_the_command(every_store, name):
    holder = hold_both(every_store)
    command = holder.command
    assert every_store.run("force-release", "--yes", "--reason", "stuck", name).status == 0
    assert not alive(command)
    assert holder.wait() == 79 and f"klock: {name}: " in holder.err and "stuck" in holder.err
    assert both_are_free(every_store)


@pytest.mark.parametrize("name", ["a", "b"])
def test_losing_one_is_losing_all(on_redis, client, name, tmp_path):
    report = tmp_path / "outcome"
    holder = hold_both(on_redis, "--ttl", "3s", "--outcome-file", str(report))
    command = holder.command
    client.delete(f"klock:{name}")
    assert holder.wait() == 79 and not alive(command) and f"klock: {name}: " in holder.err
    assert both_are_free(on_redis) and json.loads(report.read_text())["outcome"] == "lost"


def test_both_are_renewed(on_redis, client):
    holder = hold_both(on_redis, "--ttl", "2s", command="sleep 5")
    tokens = client.mget("klock:a", "klock:b")
    assert tokens[0] == tokens[1] and tokens[0]
    while client.mget("klock:a", "klock:b") == tokens:
        time.sleep(0.01)
    assert holder.wait() == 0 and holder.err == ""


@pytest.mark.parametrize("frozen", [False, True])
def test_killed_klock_releases_both_when_the_command_is_dead(every_store, frozen):
    holder = hold_both(every_store, "-k", "0.3", command="trap '' TERM; while :; do sleep 1; done")
    command = holder.command
    if frozen:
        holder.send(signal.SIGSTOP)
    holder.send(signal.SIGKILL)
    while alive(command):
        free = every_store.is_free("a") or every_store.is_free("b")
        assert not free or not alive(command), "released while the command lives"
    wait_until(lambda: both_are_free(every_store), what="released by the guard")


def test_frozen_klock_loses_its_command_before_either_key_can_expire(on_redis, client):
    holder = hold_both(on_redis, "--ttl", "2s", "-k", "0.2", command="trap '' TERM; while :; do sleep 1; done")
    command = holder.command
    holder.send(signal.SIGSTOP)
    while alive(command):
        held = client.exists("klock:a", "klock:b")
        assert held == 2 or not alive(command), "a key is gone and the command lives"
    holder.send(signal.SIGCONT)
    assert holder.wait() == 79


def test_killed_while_it_waits_leaves_nothing(store):
    store.hold("b")
    waiter = store.queue("b", 1, options=("--also", "a"))[0]
    os.kill(waiter.pid, signal.SIGKILL)
    waiter.wait()
    wait_until(lambda: store.is_free("a") and store.waiters("b") == 0, what="nothing is left")


def test_killed_guard_stops_the_command_and_both_are_released(store):
    holder = hold_both(store)
    command = holder.command
    os.kill(guard_of(holder.pid), signal.SIGKILL)
    assert holder.wait() == 71 and not alive(command) and both_are_free(store)


def test_key_and_also(on_redis, client):
    holder = on_redis.hold("a", "--key", "app:a", "--also", "b")
    assert client.get("app:a") == client.get("klock:b") != None  # noqa: E711
    assert not client.exists("klock:a")
    holder.send(signal.SIGTERM)
    holder.wait()


def test_also_with_once(store):
    for name, other in (("a", "b"), ("z", "b")):
        words = ["run", "--once", "k", "--also", other, name, "--", "echo", "ran"]
        assert store.run(*words).out == "ran\n"
        assert store.run(*words).out == "" and both_are_free(store) and store.is_free(name)
        assert store.run("once", "show", name, "k").status == 0
        assert store.run("once", "show", other, "k").status == 1


def test_twenty_processes_with_random_pairs_never_deadlock_and_never_overlap(store, child, tmp_path):
    chance = random.Random(7)
    names = ["p", "q", "r", "s"]
    runs = []
    for number in range(20):
        one, two = chance.sample(names, 2)
        # A section of each of both names: each would notice another one of its name.
        script = (f'"{child}" section "{tmp_path}/{one}" {number} 30 & x=$!; '
                  f'"{child}" section "{tmp_path}/{two}" {number} 30 || exit 1; wait $x')
        runs.append(store.start("run", "--also", two, one, "--", "sh", "-c", script))
    assert [run.wait(60) for run in runs] == [0] * 20
    for name in names:
        with open(tmp_path / name, encoding="ascii") as file:
            assert "OVERLAP" not in file.read()
