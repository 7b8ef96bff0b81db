# SPDX-License-Identifier: MIT
"""The command never outlives its lease, whoever is killed, frozen or gone."""
import os
import signal
import subprocess
import time

import pytest
from support.proc import SLOW, alive, children, group, guard_of, holds_for, marked, wait_until, wipe_out

FAMILY = "sleep 1001 & sleep 1002"
STUBBORN = "trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & while :; do sleep 1; done"


def expect_no_one_outlives_the_key(client, key, pgid, timeout):
    """Looks until the key is gone or the group is dead; the group must be the first."""

    def over():
        gone = not client.exists(key)
        living = group(pgid)
        assert not (gone and living), f"the key is gone and {living} lives"
        return not living

    wait_until(over, timeout, what="the group is dead")


def test_killed_klock_takes_the_command_with_it_and_the_next_waiter_starts(every_store, sections):  # C8, R23, R63
    holder = every_store.hold("n", command=FAMILY)
    pgid = holder.command
    waiter = every_store.queue("n", 1, *sections.command("next"))[0]
    holder.send(signal.SIGKILL)
    while group(pgid):
        assert sections.begun() == [] or not group(pgid), "two commands at once"
    dead = time.monotonic()
    wait_until(sections.begun, what="the next waiter starts")
    assert time.monotonic() - dead < 1 * SLOW
    assert waiter.wait() == 0
    assert holder.wait() == 137


def test_killed_klock_with_a_command_that_ignores_term(every_store):
    holder = every_store.hold("n", "--ttl", "3s", "-k", "300ms", command=STUBBORN)
    pgid = holder.command
    holder.send(signal.SIGKILL)
    before = time.monotonic()
    while group(pgid):
        assert not every_store.is_free("n") or not group(pgid), "released while the command lives"
    assert time.monotonic() - before < 0.5 + SLOW
    wait_until(lambda: every_store.is_free("n"), what="released by the guard")


def test_killed_waiter_leaves_nothing(store):
    holder = store.hold("n")
    waiter = store.queue("n", 1)[0]
    waiter.send(signal.SIGKILL)
    waiter.wait()
    wait_until(lambda: len(marked(store.mark)) == 1 + len(children(holder.pid)) + 1, what="its guard is gone")
    wait_until(lambda: store.waiters("n") == 0, what="its place is gone")


def test_frozen_klock_loses_its_command_before_the_key_can_expire(on_redis, client):  # R9, C36
    holder = on_redis.hold("n", "--ttl", "3s", command=FAMILY)
    pgid = holder.command
    os.kill(holder.pid, signal.SIGSTOP)
    expect_no_one_outlives_the_key(client, "klock:n", pgid, timeout=5)
    assert on_redis.run("run", "-w", "5", "n", "--", "true").status == 0, "the next one gets it"
    os.kill(holder.pid, signal.SIGCONT)
    assert holder.wait() == 79 and "lost" in holder.err and "suspended" in holder.err


def test_frozen_klock_with_a_stubborn_command(on_redis, client):
    holder = on_redis.hold("n", "--ttl", "3s", command=STUBBORN)
    os.kill(holder.pid, signal.SIGSTOP)
    expect_no_one_outlives_the_key(client, "klock:n", holder.command, timeout=5)
    os.kill(holder.pid, signal.SIGCONT)
    assert holder.wait() == 79


def test_frozen_klock_keeps_a_local_lock(on_local):
    holder = on_local.hold("n", "--ttl", "600ms", "-k", "0.1")
    command = holder.command
    os.kill(holder.pid, signal.SIGSTOP)
    assert holds_for(lambda: alive(command), 1.0)
    assert on_local.run("run", "-n", "n", "--", "true").status == 75
    os.kill(holder.pid, signal.SIGCONT)
    holder.send(signal.SIGTERM)
    assert holder.wait() == 143


def test_killed_guard_takes_the_command_with_it(store):
    holder = store.hold("n", command=FAMILY)
    pgid = holder.command
    os.kill(guard_of(holder.pid), signal.SIGKILL)
    status = holder.wait()
    assert not group(pgid) and store.is_free("n")
    assert status not in (0, 1, None) and holder.err.startswith("klock: n: ")


def test_killed_guard_with_a_stubborn_command(store):
    holder = store.hold("n", "--ttl", "3s", "-k", "300ms", command=STUBBORN)
    pgid = holder.command
    os.kill(guard_of(holder.pid), signal.SIGKILL)
    while group(pgid):
        assert not store.is_free("n") or not group(pgid), "released while the command lives"
    assert holder.wait() != 0
    wait_until(lambda: store.is_free("n"))


def test_both_killed_ends_the_command_itself(store):
    holder = store.hold("n", "--ttl", "2s")
    command = holder.command
    wipe_out(holder)
    wait_until(lambda: not alive(command), what="the command is dead")
    wait_until(lambda: store.is_free("n"), timeout=3, what="the lease ended")


def test_silent_server_means_death_before_the_key_can_expire(on_redis, redis, client):  # R3, C29, C1
    holder = on_redis.hold("n", "--ttl", "3s", command=FAMILY)
    pgid = holder.command
    expires = time.monotonic() + client.pttl("klock:n") / 1000
    redis.freeze()
    while group(pgid):
        assert time.monotonic() < expires, "the command lives though its key may have expired"
        time.sleep(0.002)
    assert holder.wait() == 79
    assert holder.err.startswith("klock: n: ") and redis.url in holder.err
    redis.thaw()


def test_silent_server_and_a_stubborn_command(on_redis, redis, client):
    holder = on_redis.hold("n", "--ttl", "3s", command=STUBBORN)
    pgid = holder.command
    expires = time.monotonic() + client.pttl("klock:n") / 1000
    redis.freeze()
    while group(pgid):
        assert time.monotonic() < expires, "the command lives though its key may have expired"
        time.sleep(0.002)
    assert holder.wait() == 79
    redis.thaw()


def test_server_that_is_back_in_time_disturbs_nothing(on_redis, redis, signal_log, client):  # R1
    ttl = 3 * SLOW
    holder = on_redis.start("run", "--ttl", f"{ttl}s", "n", "--", *signal_log.command)
    signal_log.wait_ready()
    for _ in range(2):
        wait_until(lambda: client.pttl("klock:n") > 900 * ttl, what="renewed just now")
        wait_until(lambda: client.pttl("klock:n") < 850 * ttl, what="and klock has surely read the answer")
        redis.freeze()
        time.sleep(0.27 * ttl)  # over a renewal, well short of the stop 2/3 of the lease after the last one
        redis.thaw()
    wait_until(lambda: client.pttl("klock:n") > 900 * ttl, what="renewed again")
    signal_log.end()
    assert holder.wait() == 0
    assert signal_log.count(signal.SIGTERM) == 0


def test_death_of_the_parent_shell_is_nothing_to_run(store):
    shell = store.start_program("sh", "-c", f"{store.path} run n -- sleep 1000 & echo $!; wait")
    klock = int(wait_until(lambda: shell.out.strip()))
    wait_until(lambda: not store.is_free("n"))
    shell.send(signal.SIGKILL)
    shell.wait()
    assert holds_for(lambda: alive(klock) and not store.is_free("n"), 0.3)
    os.kill(klock, signal.SIGTERM)
    wait_until(lambda: store.is_free("n"))


def test_guard_is_not_called_klock_and_not_in_its_group(store):  # killall klock, kill %1 must leave it alone
    holder = store.hold("n")
    guard = guard_of(holder.pid)
    assert guard and os.getpgid(guard) not in (os.getpgid(holder.pid), os.getpgid(holder.command))


def test_killing_every_klock_by_name_leaves_no_orphan(store):
    holder = store.hold("n", command=FAMILY)
    pgid = holder.command
    for process in marked(store.mark):
        if process.comm.startswith("klock"):
            os.kill(process.pid, signal.SIGKILL)
    wait_until(lambda: not group(pgid), what="the group is dead")
    wait_until(lambda: store.is_free("n"), what="released")
    holder.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_ended_again_and_again_at_any_moment(store, sections, number):
    """The signal hits start-up, waiting, holding and release in turn; nobody overlaps and nothing is left."""
    for step in range(40):
        running = store.start("run", "--ttl", "1s", "n", "--", *sections.command(f"s{step}", 5))
        end = time.monotonic() + step * 0.0005 * SLOW
        while time.monotonic() < end:
            pass
        if running.status is None:
            running.send(number)
        running.wait()
    wait_until(lambda: store.is_free("n"), timeout=4, what="free again")
    sections.check()


def test_frozen_guard_hides_the_end_of_the_command_for_a_while_only(every_store):
    holder = every_store.start("run", "--ttl", "3s", "n", "--", "sh", "-c", "echo up; read -r line; exit 3", stdin=subprocess.PIPE)
    wait_until(lambda: "up" in holder.out)
    os.kill(guard_of(holder.pid), signal.SIGSTOP)
    holder.popen.stdin.close()
    assert holder.wait(20) == 3
    assert every_store.is_free("n")
