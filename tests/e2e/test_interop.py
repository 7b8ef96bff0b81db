# SPDX-License-Identifier: MIT
"""Other programs' locks exclude klock, and klock excludes them, on the key that --key names."""
import json
import signal

import pytest
import redis as redis_py
from support.foreign import start_node_redlock
from support.proc import wait_until

@pytest.fixture
def redlock(on_redis, redis, tmp_path):
    """redlock() starts npm's redlock 4.2.0, which tries once to lock `job`."""
    return lambda: start_node_redlock(on_redis, redis, tmp_path)


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


def test_redlock_excludes_klock(on_redis, redlock):
    other = redlock()
    wait_until(lambda: "locked" in other.out, timeout=10)
    assert on_redis.run("run", "-n", "--key", "job", "n", "--", "true").status == 75
    other.popen.stdin.close()
    assert on_redis.run("run", "-w", "5", "--key", "job", "n", "--", "true").status == 0
    assert other.wait() == 0 and "unlocked" in other.out


def test_klock_excludes_redlock(on_redis, redlock):
    on_redis.hold("n", "--key", "job")
    other = redlock()
    assert other.wait() == 0 and "LockError" in other.out
