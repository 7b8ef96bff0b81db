# SPDX-License-Identifier: MIT
"""An administrator frees a stuck lock: asked first, never two at once, and everybody learns who did it."""
import getpass
import os
import signal
import socket
import threading
import time

import pexpect
import pytest
from support.proc import SLOW, alive, group, holds_for, wait_until, wipe_out

FAMILY = "trap 'sleep 0.3; exit 0' TERM; sleep 1000 & wait"


def holder_id(store, name="n"):
    return store.state(name)["holders"][0]["id"]


def test_holder_is_asked_and_the_lock_is_free_when_nobody_lives(every_store, sections):
    holder = every_store.hold("n", "--ttl", "60s", command=FAMILY)
    pgid = holder.command
    waiter = every_store.queue("n", 1, *sections.command("next", 20))[0]
    done = every_store.run("force-release", "--yes", "--reason", "it hangs", "n")
    assert done.status == 0, done.err
    assert not group(pgid), "done means dead"
    assert holder.wait() == 79 and waiter.wait() == 0
    for part in ("klock: n: ", getpass.getuser(), socket.gethostname(), "it hangs"):
        assert part in holder.err, part


def test_what_is_to_be_released_is_shown(store):
    holder = store.hold("n", "-m", "weekly")
    done = store.run("force-release", "--yes", "n")
    shown = done.out + done.err
    assert str(holder.pid) in shown and "weekly" in shown


def test_now_removes_at_once_and_the_holder_notices_at_once(every_store):
    holder = every_store.hold("n", "--ttl", "60s")
    command = holder.command
    time.sleep(1.2)  # the promise is for runs longer than about a second
    before = time.monotonic()
    done = every_store.run("force-release", "--yes", "--now", "--reason", "no time", "n")
    assert done.status == 0 and done.seconds < 1 * SLOW
    assert holder.wait() == 79 and time.monotonic() - before < 1 * SLOW
    assert not alive(command)
    for part in (getpass.getuser(), socket.gethostname(), "no time"):
        assert part in holder.err, part


def test_now_gives_the_lock_to_exactly_the_next_waiter(store, sections):  # R33
    store.hold("n", "--ttl", "60s")
    waiters = store.queue("n", 3, *sections.command("{}", 30))
    before = time.monotonic()
    assert store.run("force-release", "--yes", "--now", "n").status == 0
    wait_until(sections.begun, what="the next one starts")
    assert time.monotonic() - before < 1 * SLOW
    assert [waiter.wait() for waiter in waiters] == [0, 0, 0]
    assert [section.id for section in sections.check()] == ["0", "1", "2"]


def test_id_of_somebody_else_is_refused(store):  # C61
    holder = store.hold("n")
    for now in ([], ["--now"]):
        done = store.run("force-release", "--yes", *now, "--id", "0123456789ab", "n")
        assert done.status == 1 and done.err.startswith("klock: n: ")
    assert holds_for(lambda: holder.status is None, 0.2)


def test_id_of_the_holder_is_accepted(store):
    holder = store.hold("n")
    assert store.run("force-release", "--yes", "--id", holder_id(store), "n").status == 0
    assert holder.wait() == 79


def test_nothing_there_is_1(every_store):
    done = every_store.run("force-release", "--yes", "n")
    assert done.status == 1 and done.err.count("\n") <= 1
    assert every_store.run("force-release", "--yes", "--now", "n").status == 1


def test_stale_refuses_the_living(store):
    holder = store.hold("n")
    done = store.run("force-release", "--yes", "--stale", "n")
    assert done.status == 1 and holds_for(lambda: holder.status is None, 0.2)


def test_stale_removes_the_dead(on_redis, client):
    holder = on_redis.hold("n", "--ttl", "60s")
    wipe_out(holder)
    assert client.exists("klock:n")
    done = on_redis.run("force-release", "--yes", "--stale", "n")
    assert done.status == 0 and not client.exists("klock:n"), done.err


def test_stale_refuses_a_foreign_holder(on_redis, client):
    client.set("klock:n", "abc")
    assert on_redis.run("force-release", "--yes", "--stale", "n").status == 1
    assert client.get("klock:n") == "abc"


def test_foreign_holder_cannot_be_asked_and_the_hint_says_what_can_be_done(on_redis, client):
    client.set("klock:n", "abc")
    done = on_redis.run("force-release", "--yes", "n")
    assert done.status == 1 and "--now" in done.err and client.get("klock:n") == "abc"


@pytest.mark.parametrize("kind", ["string", "hash", "zset", "list"])
def test_foreign_lock_is_removed_with_now(on_redis, client, kind):  # R19
    {"string": lambda: client.set("klock:n", "abc"), "hash": lambda: client.hset("klock:n", "uuid:1", 1),
     "zset": lambda: client.zadd("klock:n", {"a": 1}), "list": lambda: client.rpush("klock:n", "a")}[kind]()
    waiter = on_redis.queue("n", 1)[0]
    assert on_redis.run("force-release", "--yes", "--now", "n").status == 0
    assert waiter.wait(2) == 0


def test_frozen_klock_is_75_with_a_hint_and_now_helps(store):
    holder = store.hold("n", "--ttl", "60s")
    os.kill(holder.pid, signal.SIGSTOP)
    done = store.run("force-release", "--yes", "-w", "600ms", "n")
    assert done.status == 75 and "--now" in done.err and 0.5 < done.seconds < 1 + SLOW
    assert not store.is_free("n")
    assert store.run("force-release", "--yes", "--now", "n").status == 0
    os.kill(holder.pid, signal.SIGCONT)
    assert holder.wait() == 79


def test_request_that_came_while_frozen_is_heard_afterwards(store):
    holder = store.hold("n", "--ttl", "60s")
    os.kill(holder.pid, signal.SIGSTOP)
    assert store.run("force-release", "--yes", "-w", "100ms", "--reason", "earlier", "n").status == 75
    os.kill(holder.pid, signal.SIGCONT)
    assert holder.wait() == 79 and "earlier" in holder.err


def test_order_is_there_until_a_holder_that_hears_nothing_looks(on_redis, client):
    holder = on_redis.hold("n", "--ttl", "10m")
    os.kill(holder.pid, signal.SIGSTOP)
    assert on_redis.run("force-release", "--yes", "-w", "100ms", "n").status == 75
    assert client.pttl("{klock:n}:requests") > 500_000
    assert on_redis.run("force-release", "--yes", "--now", "n").status == 0
    assert client.pttl("{klock:n}:requests") > 500_000
    os.kill(holder.pid, signal.SIGCONT)
    assert holder.wait() == 79


def test_look_that_fails_does_not_end_the_wait_for_the_holder(on_redis, redis):
    holder = on_redis.hold("n", "--ttl", "60s", "-k", "3s", command="trap '' TERM; while :; do sleep 1; done")
    release = on_redis.start("force-release", "--yes", "--store-timeout", "500ms", "n")
    wait_until(lambda: redis.client().hlen("{klock:n}:requests"), what="it is asked")
    redis.freeze()
    thaw = threading.Timer(1.5, redis.thaw)
    thaw.start()
    assert release.wait(20) == 0, release.err
    thaw.join()
    assert holder.wait() == 79


def test_stubborn_command_is_killed_after_kill_after(store):
    holder = store.hold("n", "-k", "300ms", command="trap '' TERM; while :; do sleep 1; done")
    pgid = holder.command
    done = store.run("force-release", "--yes", "n")
    assert done.status == 0 and not group(pgid) and holder.wait() == 79


def test_reason_is_escaped_where_it_is_shown(store):
    holder = store.hold("n")
    store.run("force-release", "--yes", "--reason", "\x1b[31mred\nline", "n")
    assert holder.wait() == 79
    assert "\x1b" not in holder.err and "red" in holder.err and holder.err.count("\n") == 1


def test_cooldown_can_be_ended(store):
    assert store.run("run", "--min-hold", "60s", "n", "--", "true").status == 0
    assert store.run("run", "-n", "n", "--", "true").status == 75
    assert store.run("force-release", "--yes", "--now", "n").status == 0
    assert store.run("run", "-n", "n", "--", "true").status == 0


@pytest.mark.parametrize("answer, status", [("n", 1), ("y", 0), ("", 1)])
def test_asks_on_a_terminal(store, answer, status):
    holder = store.hold("n", "-m", "weekly")
    tty = pexpect.spawn(store.path, ["force-release", "n"], env=store.env, timeout=10 * SLOW, encoding="utf-8")
    tty.expect("weekly")
    tty.expect(r"\[y/N\]|\?")
    tty.sendline(answer)
    tty.expect(pexpect.EOF)
    tty.close()
    assert tty.exitstatus == status
    if answer == "y":
        assert holder.wait() == 79
    else:
        assert holds_for(lambda: holder.status is None, 0.2)


def test_unreachable_store_is_69(make_klock, redis):
    klock = make_klock(redis.url)
    redis.kill()
    assert klock.run("force-release", "--yes", "n").status == 69


def test_two_administrators_at_once(store):
    holder = store.hold("n")
    both = [store.start("force-release", "--yes", "-w", "5", "n") for _ in range(2)]
    statuses = sorted(admin.wait() for admin in both)
    assert statuses in ([0, 0], [0, 1]) and holder.wait() == 79


def test_newcomer_between_look_and_removal_is_not_hit(on_redis, client):
    """What was shown is what is removed: a changed value counts as somebody else."""
    client.set("klock:n", "abc")
    shown = on_redis.state("n")["holders"][0]["id"]
    client.set("klock:n", "other")
    assert on_redis.run("force-release", "--yes", "--now", "--id", shown, "n").status == 1
    assert client.get("klock:n") == "other"
