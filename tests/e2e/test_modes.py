# SPDX-License-Identifier: MIT
"""-s, --slots and --max-waiters as a caller of klock meets them."""
import signal

import pytest
from support.proc import holds_for, wait_until


def end(*holders):
    for holder in holders:
        holder.send(signal.SIGTERM)
        holder.wait()


def test_readers_run_together_and_a_writer_waits_for_them(every_store):
    readers = [every_store.hold("n", "-s") for _ in range(3)]
    assert every_store.run("run", "-n", "n", "--", "true").status == 75
    writer = every_store.queue("n", 1, "echo", "written")[0]
    assert every_store.run("run", "-n", "-s", "n", "--", "true").status == 75, "a queued writer stops new readers"
    end(*readers[:2])
    assert holds_for(lambda: writer.status is None, 0.2)
    end(readers[2])
    assert writer.wait() == 0 and writer.out == "written\n"


def test_a_writer_keeps_readers_out(store):
    writer = store.hold("n")
    readers = store.queue("n", 3, "echo", "read", options=("-s",))
    assert holds_for(lambda: all(reader.status is None for reader in readers), 0.2)
    end(writer)
    assert [(reader.wait(), reader.out) for reader in readers] == [(0, "read\n")] * 3


@pytest.mark.parametrize("words, mode", [(["-s"], "shared"), (["--slots", "2"], "slots"), (["-x"], "exclusive")])
def test_mode_is_told(store, words, mode):
    holder = store.hold("n", *words, command='echo "$KLOCK_MODE"; exec sleep 1000')
    wait_until(lambda: mode in holder.out, what="the mode")
    state = store.state("n")
    assert (state["mode"], state["slots"]) == (mode, 2 if mode == "slots" else None)


def test_at_most_so_many_slots(every_store):
    holders = [every_store.hold("n", "--slots", "3") for _ in range(3)]
    done = every_store.run("run", "-n", "--slots", "3", "n", "--", "true")
    assert done.status == 75 and done.err.count("\n") == 1
    waiter = every_store.queue("n", 1, "echo", "mine", options=("--slots", "3"))[0]
    end(holders[1])
    assert waiter.wait() == 0 and waiter.out == "mine\n"


def test_another_number_of_slots_is_a_disagreement(store):
    store.hold("n", "--slots", "3")
    done = store.run("run", "--slots", "4", "n", "--", "echo", "ran")
    assert done.status == 78 and done.out == "" and done.err.count("\n") == 1 and "3" in done.err


def test_forced_release_of_one_reader_leaves_the_others(store):
    first, second = store.hold("n", "-s"), store.hold("n", "-s")
    ids = {holder["pid"]: holder["id"] for holder in store.state("n")["holders"]}
    assert store.run("force-release", "--yes", "--id", ids[first.pid], "n").status == 0
    assert first.wait() == 79 and second.status is None
    assert [holder["pid"] for holder in store.state("n")["holders"]] == [second.pid]


@pytest.mark.parametrize("words", [("-s",), ("--slots", "2")])
def test_one_of_several_that_has_a_min_hold_is_one_holder(store, words):
    holder = store.hold("n", *words, "--min-hold", "1h")
    state = store.state("n")
    assert state["state"] == "held" and len(state["holders"]) == 1 and state["holders"][0]["pid"] == holder.pid
    assert store.run("force-release", "--yes", "--now", "n").status == 0
    assert holder.wait() == 79 and store.is_free("n")


def test_killed_reader_lets_the_writer_in(store):
    reader = store.hold("n", "-s")
    writer = store.queue("n", 1, "echo", "written")[0]
    reader.send(signal.SIGKILL)
    assert writer.wait() == 0 and writer.out == "written\n"


def test_too_many_wait_already(every_store):
    every_store.hold("n")
    every_store.queue("n", 2)
    done = every_store.run("run", "--max-waiters", "2", "n", "--", "true")
    assert done.status == 75 and done.err.startswith("klock: n: busy: 2 are waiting already")
    assert every_store.run("run", "--max-waiters", "2", "-E", "9", "n", "--", "true").status == 9
    assert every_store.waiters("n") == 2


def test_room_in_the_queue(store):
    holder = store.hold("n")
    store.queue("n", 1)
    waiter = store.start("run", "--max-waiters", "2", "n", "--", "echo", "mine")
    wait_until(lambda: store.waiters("n") == 2, what="queued")
    end(holder)
    assert waiter.wait() == 0 and waiter.out == "mine\n"


def test_nobody_may_wait(store):
    assert store.run("run", "--max-waiters", "0", "n", "--", "echo", "ran").out == "ran\n", "a free lock is no queue"
    store.hold("n")
    done = store.run("run", "--max-waiters", "0", "n", "--", "true")
    assert done.status == 75 and "held by" in done.err


@pytest.mark.parametrize("mode", [("-s",), ("--slots", "3")])
def test_all_of_several_take_their_records_back_with_on_gone_reclaim(on_redis, client, mode):
    words = [*mode, "--ttl", "1s", "--on-gone", "reclaim"]
    holders = [on_redis.hold("n", *words, command="until test -e go; do sleep 0.02; done") for _ in range(3)]
    client.flushall()
    wait_until(lambda: len(on_redis.state("n")["holders"]) == 3, what="all are back")
    on_redis.let("go")
    assert [holder.wait() for holder in holders] == [0, 0, 0]
    assert all("taken back" in holder.err for holder in holders)
