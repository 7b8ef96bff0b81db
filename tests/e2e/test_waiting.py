# SPDX-License-Identifier: MIT
"""The queue: in order of arrival, nobody barges in, and dead or frozen waiters delay nobody."""
import os
import signal
import threading
import time

import pytest
from support.proc import SLOW, holds_for, wait_until, wipe_out

MANY = 100 if SLOW <= 1 else 30


def release(holder):
    holder.send(signal.SIGTERM)
    assert holder.wait() == 143


def test_many_waiters_are_served_in_order_of_arrival(store, sections):
    holder = store.hold("n")
    waiters = store.queue("n", MANY, *sections.command("{}", 1))
    release(holder)
    assert [waiter.wait(30) for waiter in waiters] == [0] * MANY
    assert [section.id for section in sections.check()] == [str(i) for i in range(MANY)]
    assert not any(waiter.err for waiter in waiters)


def test_killed_waiters_in_front_delay_nobody(store, sections):  # R29
    holder = store.hold("n")
    waiters = store.queue("n", 35, *sections.command("{}", 1))
    for waiter in waiters[:30]:
        waiter.send(signal.SIGKILL)
    for waiter in waiters[:30]:
        waiter.wait()
    before = time.monotonic()
    holder.send(signal.SIGTERM)
    wait_until(sections.begun, what="the 31st holds")
    assert time.monotonic() - before < 1 * SLOW
    assert [waiter.wait() for waiter in waiters[30:]] == [0] * 5
    assert [section.id for section in sections.check()] == [str(i) for i in range(30, 35)]


def test_frozen_waiter_in_front_holds_nobody_up(on_redis, sections):
    holder = on_redis.hold("n")
    frozen, *others = on_redis.queue("n", 3, *sections.command("{}", 1))
    os.kill(frozen.pid, signal.SIGSTOP)
    before = time.monotonic()
    release(holder)
    assert [waiter.wait() for waiter in others] == [0, 0]
    assert time.monotonic() - before < 2 + SLOW
    os.kill(frozen.pid, signal.SIGCONT)
    assert frozen.wait() == 0
    assert [section.id for section in sections.check()] == ["1", "2", "0"]


def test_newcomers_never_barge_in(store, sections):  # R26
    holder = store.hold("n")
    waiters = store.queue("n", 50 if SLOW <= 1 else 15, *sections.command("{}", 2))
    over = threading.Event()
    successes = []

    def newcomer():
        while not over.is_set():
            done = store.run("run", "-n", "n", "--", *sections.command("newcomer", 0))
            if done.status == 0:
                successes.append(done)

    streams = [threading.Thread(target=newcomer) for _ in range(2)]
    for stream in streams:
        stream.start()
    try:
        holder.send(signal.SIGTERM)
        assert [waiter.wait(30) for waiter in waiters] == [0] * len(waiters)
        wait_until(lambda: successes, what="a newcomer gets in once nobody waits")
    finally:
        over.set()
        for stream in streams:
            stream.join()
    order = [section.id for section in sections.check()]
    assert order[: len(waiters)] == [str(i) for i in range(len(waiters))]


def test_waiters_keep_their_place_over_a_new_connection(on_redis, client, sections):
    holder = on_redis.hold("n")
    waiters = on_redis.queue("n", 4, *sections.command("{}", 1))
    for _ in range(3):
        before = {c["id"] for c in client.client_list(_type="pubsub")}
        client.client_kill_filter(_type="pubsub")
        wait_until(lambda: len({c["id"] for c in client.client_list(_type="pubsub")} - before) >= 4, what="back again")
    release(holder)
    assert [waiter.wait() for waiter in waiters] == [0] * 4
    assert [section.id for section in sections.check()] == ["0", "1", "2", "3"]


def test_release_while_nobody_is_connected_wakes_the_queue_all_the_same(on_redis, client, sections):  # R25
    """The grant meets no connection; the waiters come back and find the lock free."""
    holder = on_redis.hold("n", "--ttl", "3s")
    waiters = on_redis.queue("n", 3, *sections.command("{}", 1))
    holder.send(signal.SIGTERM)
    for _ in range(30):
        client.client_kill_filter(_type="pubsub")
    assert [waiter.wait() for waiter in waiters] == [0, 0, 0]
    assert len(sections.check()) == 3


def test_hand_over_costs_at_most_5_commands(on_redis, redis, sections):  # R33
    holder = on_redis.hold("n", "--ttl", "60s")
    waiters = on_redis.queue("n", 20, *sections.command("{}", 1), options=("--ttl", "60s"))
    with redis.monitor() as monitor:
        release(holder)
        assert [waiter.wait() for waiter in waiters] == [0] * 20
        calls = monitor.settle(redis)
    assert len(calls) <= 5 * 21, calls[:20]


def test_acquire_and_release_are_one_command_each(on_redis, redis):  # C33
    on_redis.run("run", "n", "--", "true")
    with redis.monitor() as monitor:
        on_redis.run("run", "-n", "n", "--", "true")
        calls = [line for line in monitor.settle(redis) if '"client"' not in line.lower()]
    assert len(calls) == 2 and all('"evalsha"' in line.lower() for line in calls), calls


def test_idle_waiters_ask_the_server_nothing(on_redis, redis):
    on_redis.hold("n", "--ttl", "60s")
    on_redis.queue("n", 5, options=("--ttl", "60s"))
    with redis.monitor() as monitor:
        assert holds_for(lambda: not monitor.calls(), 1.0), monitor.calls()


def test_wait_that_ran_out_leaves_nothing(store):
    store.hold("n")
    assert store.run("run", "-w", "200ms", "n", "--", "true").status == 75
    assert store.waiters("n") == 0


def test_interrupted_waiters_leave_nothing_and_the_rest_goes_on(store, sections):
    holder = store.hold("n")
    waiters = store.queue("n", 6, *sections.command("{}", 1))
    for waiter in waiters[:5:2]:
        waiter.send(signal.SIGTERM)
    assert [waiter.wait() for waiter in waiters[:5:2]] == [143] * 3
    assert store.waiters("n") == 3
    release(holder)
    assert [waiter.wait() for waiter in waiters[1::2]] == [0] * 3
    assert [section.id for section in sections.check()] == ["1", "3", "5"]


def test_short_jobs_in_parallel_are_quick(store):  # C38
    before = time.monotonic()
    started = [store.start("run", "-w", "60", "n", "--", "date") for _ in range(8)]
    assert [running.wait() for running in started] == [0] * 8
    assert time.monotonic() - before < 2 * SLOW


def test_holder_that_is_wiped_out_is_followed_when_its_lease_ends(on_redis, sections):  # C32
    holder = on_redis.hold("n", "--ttl", "1s")
    waiter = on_redis.queue("n", 1, *sections.command("next"))[0]
    wipe_out(holder)
    before = time.monotonic()
    assert waiter.wait() == 0 and time.monotonic() - before < 1.5 + 0.5 * SLOW


def test_waiter_outlives_a_restart_of_the_server(on_redis, redis):
    holder = on_redis.hold("n", "--ttl", "1s")
    waiter = on_redis.queue("n", 1, "echo", "mine")[0]
    redis.kill()
    assert holds_for(lambda: waiter.status is None, 0.5)
    redis.start()
    assert waiter.wait() == 0 and waiter.out == "mine\n"
    assert holder.wait() == 79


def test_release_of_a_foreign_client_is_noticed(on_redis, client):
    client.set("klock:n", "abc", px=60000)
    waiter = on_redis.queue("n", 1, "echo", "mine")[0]
    client.delete("klock:n")
    before = time.monotonic()
    assert waiter.wait() == 0 and time.monotonic() - before < 0.5 * SLOW


def test_expiry_of_a_foreign_key_is_noticed(on_redis, client):
    client.set("klock:n", "abc", px=700)
    done = on_redis.run("run", "-w", "5", "n", "--", "true")
    assert done.status == 0 and 0.5 < done.seconds < 0.9 + 0.5 * SLOW


def test_foreign_key_without_expiry_and_a_wait_limit(on_redis, client):  # R19
    client.set("klock:n", "abc")
    done = on_redis.run("run", "-w", "400ms", "n", "--", "true")
    assert done.status == 75 and 0.39 < done.seconds < 0.5 + 0.5 * SLOW
    assert client.get("klock:n") == "abc" and client.ttl("klock:n") == -1


def test_lost_bookkeeping_is_repaired(on_redis, redis, client, sections):  # R31
    """Each key beside the lock vanishes once; everybody is served, and nobody sees an error of a script."""
    holder = on_redis.hold("n", "--ttl", "1s")
    beside = redis.keys("klock:n")
    waiters = on_redis.queue("n", 2, *sections.command("{}", 1), options=("--ttl", "1s"))
    beside = sorted({*beside, *redis.keys("klock:n")} - {"klock:n"})
    assert beside
    for number, key in enumerate(beside):
        client.delete(key)
        extra = on_redis.start("run", "--ttl", "1s", "n", "--", *sections.command(f"extra{number}", 1))
        waiters.append(extra)
        wait_until(lambda n=number: on_redis.waiters("n") >= 1, what="queued")
    holder.send(signal.SIGTERM)
    assert [waiter.wait() for waiter in waiters] == [0] * len(waiters)
    assert not any(waiter.err for waiter in waiters)
    assert len(sections.check()) == len(waiters)


@pytest.mark.parametrize("count", [2, 5])
def test_released_name_is_taken_in_turn_over_and_over(store, sections, count):
    loop = 'i=0; while [ $i -lt 15 ]; do "$0" run n -- "$@" || exit 1; i=$((i+1)); done'
    loops = [store.start_program("sh", "-c", loop, store.path, *sections.command(f"l{i}", 0)) for i in range(count)]
    assert [running.wait(30) for running in loops] == [0] * count
    assert len(sections.check()) == 15 * count
