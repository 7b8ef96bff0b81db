# SPDX-License-Identifier: MIT
"""Other programs' locks exclude klock, and klock excludes them, on the key that --key names."""
import json
import signal

import pytest
import redis as redis_py
from support.foreign import PythonRedisLockSteps, RedissonSteps, start_node, unlock
from support.proc import wait_until, wipe_out

EVERY_NODE = pytest.mark.parametrize("library, key", [("redlock", "job"), ("@sesamecare-oss/redlock", "job"),
                                                      ("redis-semaphore", "mutex:job")])
EVERY_SEQUENCE = pytest.mark.parametrize("steps", [PythonRedisLockSteps, RedissonSteps])


@pytest.fixture
def node(on_redis, redis):
    """node(LIBRARY, KEY, ...) starts a program that locks with it."""
    return lambda library, key, **options: start_node(on_redis, redis, library, key, **options)


def wait_locked(node):
    wait_until(lambda: "locked" in node.out or node.status is not None, timeout=10, what="locked")
    assert node.status is None, node.out + node.err


def try_once(klock, key):
    return klock.run("run", "-n", "--key", key, "n", "--", "true")


def test_redis_py_excludes_klock(on_redis, client):
    lock = client.lock("job", timeout=20)
    assert lock.acquire(blocking=False)
    done = on_redis.run("run", "-n", "--key", "job", "n", "--", "true")
    assert done.status == 75 and "another client" in done.err
    waiter = on_redis.start("run", "-w", "5", "--key", "job", "n", "--", "true")
    wait_until(lambda: json.loads(on_redis.run("status", "--json", "--key", "job", "n").out)[0]["waiters"])
    lock.release()
    assert waiter.wait(2) == 0


def test_klock_excludes_redis_py(on_redis, client):
    holder = on_redis.hold("n", "--key", "job")
    lock = client.lock("job", timeout=20)
    assert not lock.acquire(blocking=False)
    with pytest.raises(redis_py.exceptions.LockError):
        lock.local.token = b"not-mine"
        lock.release()
    holder.send(signal.SIGTERM)
    holder.wait()
    assert lock.acquire(blocking=False)
    lock.release()


def test_redis_py_is_not_let_in_while_klocks_queue_up(on_redis, client, sections):
    holder = on_redis.hold("n", "--key", "job")
    waiters = [on_redis.start("run", "--key", "job", "n", "--", *sections.command(str(i), 5)) for i in range(5)]
    wait_until(lambda: len(on_redis.state("n", "--key", "job")["waiters"]) == 5)
    holder.send(signal.SIGTERM)
    lock = client.lock("job", timeout=20)
    while any(waiter.status is None for waiter in waiters):
        if lock.acquire(blocking=False):
            assert len(sections.ended()) == 5, "let in between two waiters"
            lock.release()
    sections.check()


@EVERY_NODE
def test_node_excludes_klock(on_redis, node, library, key):
    other = node(library, key)
    wait_locked(other)
    assert try_once(on_redis, key).status == 75
    waiter = on_redis.queue_for(key)
    unlock(other)
    assert waiter.wait() == 0 and "unlocked" in other.out


@EVERY_NODE
def test_klock_excludes_node(on_redis, client, node, library, key):
    holder = on_redis.hold("n", "--key", key)
    token = client.get(key)
    other = node(library, key)
    assert other.wait() == 0 and other.out.startswith(("LockError", "ExecutionError", "Error Acquire mutex")), other.out
    known = {one["id"] for one in client.client_list()}
    other = node(library, key, attempts=1000)
    wait_until(lambda: any(one["id"] not in known for one in client.client_list()), timeout=10, what="it is there")
    assert client.get(key) == token and other.out == ""
    holder.send(signal.SIGTERM)
    holder.wait()
    wait_locked(other)
    assert client.get(key) != token
    unlock(other)


@EVERY_NODE
def test_klock_goes_on_after_a_crash_of_node(on_redis, node, library, key):
    other = node(library, key, ttl=2000)
    wait_locked(other)
    other.send(signal.SIGKILL)
    other.wait()
    assert on_redis.run("run", "-w", "30", "--key", key, "n", "--", "true", timeout=30).status == 0


@EVERY_NODE
def test_node_goes_on_after_a_crash_of_klock(on_redis, node, library, key):
    holder = on_redis.hold("n", "--key", key, "--ttl", "3s")
    wipe_out(holder)
    other = node(library, key, attempts=1000)
    wait_locked(other)
    unlock(other)


def test_semaphore_of_redis_semaphore_is_busy_and_stays(on_redis, client, node):
    key = "semaphore:job"
    other = node("redis-semaphore, counting", key)
    wait_locked(other)
    members = client.zrange(key, 0, -1)
    assert try_once(on_redis, key).status == 75
    assert client.zrange(key, 0, -1) == members
    unlock(other)
    assert try_once(on_redis, key).status == 0


def test_semaphore_of_redis_semaphore_leaves_klocks_lock(on_redis, client, node):
    key = "semaphore:job"
    on_redis.hold("n", "--key", key)
    token = client.get(key)
    other = node("redis-semaphore, counting", key)
    assert other.wait() == 0 and "WRONGTYPE" in other.out
    assert client.get(key) == token


@EVERY_SEQUENCE
def test_sequence_excludes_klock(on_redis, client, steps):
    other = steps(client)
    assert other.acquire()
    before = client.dump(other.key)
    done = try_once(on_redis, other.key)
    assert done.status == 75 and "another client" in done.err
    waiter = on_redis.queue_for(other.key)
    assert client.dump(other.key) == before, "overwritten"
    other.release()
    assert waiter.wait() == 0


@EVERY_SEQUENCE
def test_klock_excludes_sequence(on_redis, client, steps):
    other = steps(client)
    holder = on_redis.hold("n", "--key", other.key)
    token = client.get(other.key)
    try:
        assert not other.acquire()
    except redis_py.exceptions.ResponseError as error:
        assert "WRONGTYPE" in str(error)  # Redisson's, which is an error in its program, too
    assert client.get(other.key) == token and holder.status is None
    holder.send(signal.SIGTERM)
    holder.wait()
    assert other.acquire()
    other.release()


def test_redisson_taken_twice_is_released_twice(on_redis, client):
    other = RedissonSteps(client)
    assert other.acquire() and other.acquire()
    waiter = on_redis.queue_for(other.key)
    other.release()
    assert try_once(on_redis, other.key).status == 75 and waiter.status is None
    other.release()
    assert waiter.wait() == 0
