# SPDX-License-Identifier: MIT
"""Nothing that klock leaves stays: keys expire, queues empty, files go."""
import os
import signal

from support.proc import SLOW, marked, wait_until
from support.runner import lock_files

FENCE = ("fence", "}:events", "}:groups", "}:stats:n")  # what may stay: the parts of keys


def test_every_key_has_an_expiry_all_the_time(on_redis, redis, client):  # C32
    def check():
        found = client.keys("*")
        for key in found:
            assert client.pttl(key) != -1, key  # -2: gone meanwhile
        return found

    holder = on_redis.hold("n", "--ttl", "2s", "--min-hold", "1s")
    waiters = on_redis.queue("n", 3, options=("--ttl", "2s"))
    on_redis.run("run", "-n", "n", "--", "true")
    assert len(check()) >= 4
    on_redis.start("force-release", "--yes", "-w", "100ms", "--reason", "x", "n")
    while holder.status is None or any(waiter.status is None for waiter in waiters):
        check()
    check()


def test_nothing_but_the_fence_stays_in_the_database(on_redis, redis, client):
    holder = on_redis.hold("n")
    waiters = on_redis.queue("n", 2)
    holder.send(signal.SIGTERM)
    assert [waiter.wait() for waiter in waiters] == [0, 0]
    assert redis.keys(*FENCE) == []
    assert 0 < client.pttl(redis.keys()[0]) <= 30 * 24 * 3600 * 1000


def test_thousands_of_refused_runs_leave_nothing(on_redis, redis):  # R27
    holder = on_redis.hold("n")
    before = redis.keys()
    count = 2000 if SLOW <= 1 else 200
    loop = f'i=0; while [ $i -lt {count // 4} ]; do "$0" run -q -n n -- true; i=$((i+1)); done'
    loops = [on_redis.start_program("sh", "-c", loop, on_redis.path) for _ in range(4)]
    assert [running.wait(180) for running in loops] == [0] * 4
    assert redis.keys() == before
    holder.send(signal.SIGTERM)
    holder.wait()
    assert redis.keys(*FENCE) == []


def test_killed_waiters_leave_keys_that_expire(on_redis, redis, client):
    holder = on_redis.hold("n", "--ttl", "1s")
    for waiter in on_redis.queue("n", 3, options=("--ttl", "1s")):
        waiter.send(signal.SIGKILL)
        waiter.wait()
    holder.send(signal.SIGTERM)
    holder.wait()
    wait_until(lambda: redis.keys(*FENCE) == [], timeout=40, what="everything expired")


def test_no_connection_stays_behind(on_redis, client):
    holder = on_redis.hold("n")
    on_redis.queue("n", 3)
    assert len([c for c in client.client_list()]) == 5  # one each, and ours
    on_redis.end_all()
    assert holder.wait() == 143
    wait_until(lambda: len(client.client_list()) == 1, what="connections closed")


def test_client_name_says_klock(on_redis, client):
    on_redis.hold("n")
    assert [c for c in client.client_list() if "klock" in c["name"]]


def test_local_directory_is_empty_afterwards(on_local, local_directory):
    holder = on_local.hold("n")
    waiters = on_local.queue("n", 3)
    on_local.run("run", "-n", "n", "--", "true")
    waiters[1].send(signal.SIGKILL)
    waiters[1].wait()
    holder.send(signal.SIGTERM)
    assert [waiters[i].wait() for i in (0, 2)] == [0, 0]
    assert lock_files(local_directory) == []


def test_local_directory_is_empty_after_a_kill(on_local, local_directory):
    holder = on_local.hold("n")
    holder.send(signal.SIGKILL)
    holder.wait()
    wait_until(lambda: not marked(on_local.mark), what="the guard is gone")
    on_local.run("run", "n", "--", "true")
    assert lock_files(local_directory) == []


def test_no_temporary_files_elsewhere(store, tmp_path):
    before = sorted(path for path in os.listdir(store.directory) if not path.endswith((".out", ".err")))
    store.run("run", "--outcome-file", "outcome", "n", "--", "true")
    after = sorted(path for path in os.listdir(store.directory) if not path.endswith((".out", ".err")))
    assert after == sorted([*before, "outcome"])
