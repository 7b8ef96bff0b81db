# SPDX-License-Identifier: MIT
"""Locks of other programs on Redis: told by their shape, removed exactly as shown, and their own waiters woken."""
import re

import pytest
import redis as redis_py
from support.foreign import KINDS, PythonRedisLock, UUID, start_node, state, unlock
from support.proc import wait_until

EVERY_KIND = pytest.mark.parametrize("kind", KINDS)
REDISSON = {"Redisson": ("redisson_lock__channel:{job}", "0"), "Redisson, reading": ("redisson_rwlock:{job}", "0"),
            "Redisson, writing": ("redisson_rwlock:{job}", "1")}


@pytest.fixture
def taken(redis, kind):
    """The key that a lock of this kind has been taken with, and the client that klock should name."""
    key, take, named = KINDS[kind]
    assert take(redis_py.Redis(port=redis.port))
    return key, named


def force(klock, key, *words):
    return klock.run("force-release", "--yes", "--key", key, *words, "n")


@EVERY_KIND
def test_shown_with_what_is_probable(on_redis, client, taken):
    key, named = taken
    (holder,) = state(on_redis, key)["holders"]
    assert holder["foreign"] is True and holder["client"] == named and holder["id"]
    assert (holder["expires_in_ms"] is None) == (client.pttl(key) < 0)
    waiter = on_redis.queue_for(key)
    for words in (["status", "--key", key, "n"], ["list"], ["force-release", "--yes", "--key", key, "n"]):
        done = on_redis.run(*words)
        shown = done.out + done.err
        assert "another client" in shown and (named is None) == ("probably" not in shown), shown
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", shown), shown
        if named:
            assert f"probably {named}" in shown
        if client.pttl(key) < 0:
            assert words[0] == "force-release" or "no expiry" in shown
    assert waiter.status is None


@EVERY_KIND
def test_removed_with_now_alone_and_klocks_waiter_goes_on(on_redis, client, taken):
    key, _ = taken
    waiter = on_redis.queue_for(key)
    for words, hint in ((["--stale"], "--now removes"), ([], "--now removes"), (["--now", "--id", "0123456789ab"], "")):
        done = force(on_redis, key, *words)
        assert done.status == 1 and hint in done.err, done.err
        assert client.exists(key) and waiter.status is None
    done = force(on_redis, key, "--now", "--id", state(on_redis, key)["holders"][0]["id"])
    assert done.status == 0, done.err
    assert waiter.wait(3) == 0


CHANGES = {"a string": (lambda c: c.set("job", "a"), lambda c: c.set("job", "b")),
           "a hash": (lambda c: c.hset("job", f"{UUID}:1", 1), lambda c: c.hset("job", f"{UUID}:1", 2)),
           "a sorted set": (lambda c: c.zadd("job", {"a": 1}), lambda c: c.zadd("job", {"a": 2})),
           "a list": (lambda c: c.rpush("job", "a"), lambda c: c.lset("job", 0, "b")),
           "the type": (lambda c: c.set("job", "a"), lambda c: (c.delete("job"), c.hset("job", "a", 1)))}


@pytest.mark.parametrize("what", CHANGES)
def test_what_has_changed_since_it_was_shown_stays(on_redis, client, what):
    make, change = CHANGES[what]
    make(client)
    shown = state(on_redis, "job")["holders"][0]["id"]
    change(client)
    assert force(on_redis, "job", "--now", "--id", shown).status == 1
    assert client.exists("job")


def test_longer_life_is_no_change(on_redis, client):
    """A watchdog renews all the time."""
    client.hset("job", f"{UUID}:1", 1)
    shown = state(on_redis, "job")["holders"][0]["id"]
    client.pexpire("job", 30000)
    assert force(on_redis, "job", "--now", "--id", shown).status == 0


def test_waiter_of_python_redis_lock_is_woken(on_redis, redis, client):  # R33
    client.set("lock:job", "theirs")
    waiter = PythonRedisLock(redis.client())
    wait_until(lambda: client.info("clients")["blocked_clients"] == 1, what="it waits")
    assert force(on_redis, "lock:job", "--now").status == 0
    assert waiter.held.wait(10) and client.get("lock:job") == "mine"


def test_signal_of_python_redis_lock_is_one_and_expires(on_redis, client):
    for _ in range(3):
        client.set("lock:job", "theirs")
        assert force(on_redis, "lock:job", "--now").status == 0
    assert client.llen("lock-signal:job") <= 1
    wait_until(lambda: not client.exists("lock-signal:job"), what="expired")


def test_somebodys_key_with_the_name_of_the_signals_stays_as_it_is(on_redis, client):
    client.set("lock-signal:job", "precious")
    client.set("lock:job", "theirs")
    done = force(on_redis, "lock:job", "--now", "-v")
    assert done.status == 0 and "were not woken" in done.err, done.err
    assert client.get("lock-signal:job") == "precious" and client.pttl("lock-signal:job") == -1


def test_klocks_waiter_comes_before_that_of_another_program(on_redis, redis, client):
    client.set("lock:job", "theirs")
    other = PythonRedisLock(redis.client())
    wait_until(lambda: client.info("clients")["blocked_clients"] == 1, what="it waits")
    waiter = on_redis.start("run", "--key", "lock:job", "n", "--", "sh", "-c", "echo up; until test -e go; do sleep 0.02; done")
    wait_until(lambda: state(on_redis, "lock:job")["waiters"], what="klock waits too")
    assert force(on_redis, "lock:job", "--now").status == 0
    wait_until(lambda: "up" in waiter.out, what="klock's starts")
    assert other.woken.wait(10) and not other.held.is_set()
    on_redis.let("go")
    assert waiter.wait() == 0
    client.lpush("lock-signal:job", 1)  # of klock's own releases it hears nothing
    assert other.held.wait(10)


@pytest.mark.parametrize("kind", REDISSON)
def test_waiters_of_redisson_are_woken_through_their_channel(on_redis, client, taken, kind):
    channel, message = REDISSON[kind]
    subscription = client.pubsub(ignore_subscribe_messages=True)
    subscription.subscribe(channel)
    subscription.get_message(timeout=5)
    assert force(on_redis, taken[0], "--now").status == 0
    heard = wait_until(lambda: subscription.get_message(timeout=0.1), what="the message")
    assert (heard["channel"], heard["data"]) == (channel, message)
    subscription.close()


def test_user_who_may_not_wake_them_still_removes(make_klock, redis, client):
    client.execute_command("ACL", "SETUSER", "admin", "on", ">pw", "~lock:job", "~job", "~{*", "resetchannels", "+@all")
    admin = make_klock(f"redis://admin:pw@127.0.0.1:{redis.port}")
    for key, make in (("lock:job", lambda: client.set("lock:job", "theirs")), ("job", lambda: client.hset("job", f"{UUID}:1", 1))):
        make()
        done = force(admin, key, "--now", "-v")
        assert done.status == 0 and "were not woken" in done.err and not client.exists(key), done.err
        make()
        done = force(admin, key, "--now")
        assert done.status == 0 and "woken" not in done.err and not client.exists(key), done.err


def test_redis_py_is_told_at_its_release(on_redis, client):
    lock = client.lock("job", timeout=20)
    assert lock.acquire(blocking=False)
    waiter = client.lock("job", timeout=20)
    assert force(on_redis, "job", "--now").status == 0
    assert waiter.acquire(blocking=True, blocking_timeout=10)
    with pytest.raises(redis_py.exceptions.LockNotOwnedError):
        lock.release()
    waiter.release()


def test_node_redlock(on_redis, redis, client):
    holder = start_node(on_redis, redis, "redlock")
    wait_until(lambda: "locked" in holder.out, timeout=10, what="locked")
    (shown,) = state(on_redis, "job")["holders"]
    assert "redlock" in shown["client"] or shown["client"] == "redis-py"  # 1 of 64 of its tokens looks like a UUID
    assert client.get("job") not in on_redis.run("status", "--key", "job", "n").out, "it might be a token of klock's"
    waiter = start_node(on_redis, redis, "redlock", attempts=1000)
    assert force(on_redis, "job", "--now").status == 0
    wait_until(lambda: "locked" in waiter.out, timeout=10, what="the next one has it")
    unlock(holder)
    unlock(waiter)
    assert "unlocked" not in holder.out and "unlocked" in waiter.out


def test_mutex_of_redis_semaphore(on_redis, redis):
    holder = start_node(on_redis, redis, "redis-semaphore", "mutex:job", ttl=5000)
    wait_until(lambda: "locked" in holder.out, timeout=10, what="locked")
    (shown,) = state(on_redis, "mutex:job")["holders"]
    assert shown["client"] == "redis-semaphore"
    waiter = start_node(on_redis, redis, "redis-semaphore", "mutex:job", attempts=1000)
    assert force(on_redis, "mutex:job", "--now").status == 0
    wait_until(lambda: "locked" in waiter.out, timeout=10, what="the next one has it")
    wait_until(lambda: "lost" in holder.out, timeout=15, what="the first one finds out")
    unlock(holder)
    assert not on_redis.is_free("n", "--key", "mutex:job")
    unlock(waiter)
