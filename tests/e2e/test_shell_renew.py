# SPDX-License-Identifier: MIT
"""klock renew: what it promises stands, and it takes nothing from a process that relies on the lease."""
import re
import time

import pytest
from support import shells
from support.proc import SLOW, holds_for, wait_until


def renew(klock, token, ttl):
    done = klock.run("renew", "--ttl", ttl, "--token", token, "n")
    assert (done.status, done.out, done.err) == (0, "", "")


def left(klock):
    """Of the lease, in seconds; None: it has none."""
    (held,) = klock.state("n")["holders"]
    return held["expires_in_ms"] and held["expires_in_ms"] / 1000


def hold_by_run(klock, *options):
    holder = klock.hold("n", *options, command="echo $KLOCK_TOKEN; exec sleep 1000")
    wait_until(lambda: len(holder.out.split()) == 2, what="it tells its token")
    holder.token = holder.out.split()[1]
    return holder


@pytest.mark.parametrize("mode", ["", "-s", "--slots 2"])
def test_keeper_leaves_the_longer_lease(on_redis, mode):
    script = shells.hold(on_redis, f"--ttl 600ms {mode} n")
    renew(on_redis, script.token, "60s")
    assert holds_for(lambda: left(on_redis) > 50, 1.2 * SLOW)
    assert shells.finish(script) == 0
    wait_until(lambda: on_redis.is_free("n"), what="released none the less")


@pytest.mark.parametrize("mode", ["", "-s", "--slots 2"])
def test_end_that_is_sooner_is_heard_by_those_who_wait(store, mode):
    token = re.search("[0-9a-f]{32}", store.run("acquire", *mode.split(), "--for", "2h", "n").out)[0]
    (waiter,) = store.queue("n", 1)
    renew(store, token, "500ms")
    assert waiter.wait(5 * SLOW) == 0
    assert store.run("run", "-n", "n", "true").status == 0


def test_keeper_extends_when_the_longer_lease_nears_its_end(on_redis):
    script = shells.hold(on_redis, "--ttl 900ms n")
    renew(on_redis, script.token, "1500ms")
    assert holds_for(lambda: script.status is None and not on_redis.is_free("n"), 3 * SLOW)
    assert left(on_redis) <= 0.9
    assert shells.finish(script) == 0


def test_run_leaves_the_longer_lease(on_redis):
    holder = hold_by_run(on_redis, "--ttl", "2s")
    renew(on_redis, holder.token, "60s")
    assert holds_for(lambda: left(on_redis) > 50 and holder.status is None, 3)


def test_shell_is_told_before_the_longer_lease_ends_and_not_sooner_than_it_must(on_redis, redis):
    script = shells.start(on_redis, "trap 'exit 3' TERM; eval \"$(klock acquire --ttl 900ms n)\" || exit;"
                                    " echo up $KLOCK_TOKEN; while :; do read -t 0.05 line; done")
    wait_until(lambda: "up" in script.out, what="held")
    begun = time.monotonic()
    renew(on_redis, script.out.split()[1], f"{4 * SLOW}s")
    assert holds_for(lambda: script.status is None, 0.6 * SLOW)  # the keeper's next renewal
    redis.freeze()
    assert holds_for(lambda: script.status is None, 1.5 * SLOW), "the lease still runs"
    assert script.wait() == 3 and time.monotonic() - begun < 4 * SLOW
    redis.thaw()


@pytest.mark.parametrize("ttl", ["300ms", "30s"])
def test_shorter_time_takes_nothing_from_keeper_or_run(on_redis, ttl):
    """Both would go on until the end of the lease as they know it."""
    script = shells.hold(on_redis, "--ttl 60s n")
    renew(on_redis, script.token, ttl)
    assert left(on_redis) > 50
    assert shells.finish(script) == 0
    wait_until(lambda: on_redis.is_free("n"), what="released")
    holder = hold_by_run(on_redis, "--ttl", "60s")
    renew(on_redis, holder.token, ttl)
    assert left(on_redis) > 50


def test_lease_that_no_process_relies_on_gets_what_was_asked_for(store):
    script = shells.run(store, 'eval "$(klock acquire --no-keeper --ttl 60s n)" || exit; echo $KLOCK_TOKEN')
    renew(store, script.out.strip(), "5s")
    assert left(store) <= 5
    renew(store, script.out.strip(), "50s")
    assert 40 < left(store) <= 50


def test_shorter_time_takes_nothing_from_a_run_that_has_joined(store):
    text = ('eval "$(klock acquire --no-keeper --ttl 60s n)" || exit; echo $KLOCK_TOKEN;'
            " klock run n -- sh -c 'echo up; read -r line'; read -r line")
    script = shells.start(store, text)
    wait_until(lambda: "up" in script.out, what="joined")
    token = script.out.split()[0]
    renew(store, token, "300ms")
    assert left(store) > 50
    script.popen.stdin.write(b"\n")
    script.popen.stdin.flush()
    wait_until(lambda: not store.run("renew", "--ttl", "5s", "--token", token, "n").status and left(store) <= 5,
               what="nobody relies on it any more")
    shells.finish(script)


def test_hold_with_a_process_has_no_lease_on_the_local_store(on_local):
    """Neither a longer nor a shorter time means anything: it ends with its process."""
    script = shells.hold(on_local, "--ttl 600ms n")
    for ttl in ("60s", "300ms"):
        renew(on_local, script.token, ttl)
        assert left(on_local) is None
    assert holds_for(lambda: script.status is None and not on_local.is_free("n"), 0.8)
    assert shells.finish(script) == 0
    wait_until(lambda: on_local.is_free("n"), what="released")
