# SPDX-License-Identifier: MIT
"""The fence number grows from hold to hold, whatever the server forgot."""
import signal
import time

from support.proc import wait_until
from support.runner import lock_files


def fence(store, *options, **more):
    return int(store.run("run", *options, "n", "--", "sh", "-c", "echo $KLOCK_FENCE", **more).out)


def test_grows_with_every_hold(every_store):
    fences = [fence(every_store) for _ in range(10)]
    assert fences == sorted(set(fences))


def test_grows_after_the_server_lost_everything(on_redis, client):
    before = [fence(on_redis) for _ in range(3)][-1]
    client.flushall()
    assert fence(on_redis) > before


def test_grows_after_a_restart_without_data(on_redis, redis):
    before = fence(on_redis)
    redis.restart()
    assert fence(on_redis) > before


def test_grows_when_the_clock_is_put_back(on_local, local_directory, wrong_clock):
    fences = [fence(on_local, env=wrong_clock(86400))]
    assert fences[0] / 1e6 > time.time() + 80000
    for seconds in (0, -86400, 3600):
        assert lock_files(local_directory) == [], "nothing tells of the last one"
        fences.append(fence(on_local, env=wrong_clock(seconds)))
    assert fences == sorted(set(fences))


def test_grows_from_a_number_ahead_of_the_clock(on_redis, redis, client):
    """max(last + 1, microseconds): a clock that went back does not take the fence back."""
    fence(on_redis)
    (key,) = [key for key in redis.keys() if "fence" in key]
    ahead = int(time.time() * 1e6) + 10**12
    client.set(key, ahead, px=60000)
    assert fence(on_redis) == ahead + 1


def test_stays_the_same_during_a_hold(on_redis):
    holder = on_redis.hold("n", "--ttl", "2s", command="echo $KLOCK_FENCE; sleep 3")
    number = int(wait_until(lambda: holder.out.split()[1:])[0])
    while holder.status is None:
        state = on_redis.state("n")
        assert not state["holders"] or state["holders"][0]["fence"] == number
    assert holder.status == 0


def test_grows_over_hand_overs(store, sections):
    holder = store.hold("n")
    waiters = store.queue("n", 5, *sections.command("{}", 1))
    holder.send(signal.SIGTERM)
    assert [waiter.wait() for waiter in waiters] == [0] * 5
    assert all(section.fence > 0 for section in sections.check())
