# SPDX-License-Identifier: MIT
"""At three in the morning: the import is stuck. One command finds who holds it, a second one frees it."""
import getpass
import os
import signal

import pytest
from support.proc import guard_of, process, wait_until, wipe_out

NAME = "import"


def found(store):
    """The first command."""
    done = store.run("list", "--older-than", "0s")
    assert done.status == 0 and NAME in done.out, done.out + done.err
    return done.out


def freed(store, *options):
    """The second command, after which others can go on at once."""
    done = store.run("force-release", "--yes", "--reason", "stuck", *options, NAME, timeout=20)
    assert done.status == 0, done.err
    assert store.run("run", "-n", NAME, "--", "true").status == 0
    last = [line for line in store.run("log", NAME).out.splitlines() if "forced" in line]
    assert last and "stuck" in last[-1] and getpass.getuser() in last[-1]


def test_a_command_that_hangs(store):
    holder = store.hold(NAME)
    assert str(holder.pid) in found(store)
    freed(store)
    assert holder.wait() == 79


def test_a_command_that_ignores_what_it_is_told(store):
    holder = store.hold(NAME, "-k", "0.2", command="trap '' TERM INT HUP; while :; do sleep 0.05; done")
    assert str(holder.pid) in found(store)
    freed(store)
    assert holder.wait() == 79


def test_a_klock_that_is_frozen(store):
    holder = store.hold(NAME, "--ttl", "60s")
    holder.send(signal.SIGSTOP)
    wait_until(lambda: process(holder.pid).state == "T", what="it is frozen")
    assert str(holder.pid) in found(store)
    freed(store, "--now")
    holder.send(signal.SIGCONT)
    assert holder.wait() == 79


def test_a_host_that_is_gone(on_redis):
    holder = on_redis.hold(NAME, "--ttl", "1h")
    wipe_out(holder)
    assert str(holder.pid) in found(on_redis)
    freed(on_redis, "--stale")


def test_a_forgotten_maintenance(store):
    assert store.run("acquire", "--for", "8h", "-m", "new disks", NAME).status == 0
    assert "maintenance" in found(store)
    freed(store)


def test_a_shell_that_sleeps(store):
    shell = store.start_program("sh", "-c", f'eval "$({store.path} acquire {NAME})"; echo up; exec sleep 1000')
    wait_until(lambda: "up" in shell.out, what="it holds the lock")
    assert str(shell.pid) in found(store)
    freed(store)
    shell.wait()


@pytest.mark.parametrize("options", [("-s",), ("--slots", "2")])
def test_one_of_several(store, options):
    holders = [store.hold(NAME, *options) for _ in range(2)]
    state = store.state(NAME)
    stuck = next(one for one in state["holders"] if one["pid"] == holders[1].pid)
    done = store.run("force-release", "--yes", "--id", stuck["id"], NAME, timeout=20)
    assert done.status == 0, done.err
    assert holders[1].wait() == 79 and holders[0].status is None


def test_another_programs_lock(on_redis, client):
    client.set(f"klock:{NAME}", "0123456789abcdef0123456789abcdef")
    status = on_redis.run("status", NAME)
    assert "another client" in status.out and "no expiry" in status.out
    freed(on_redis, "--now")


def test_a_guard_that_is_frozen(store):
    """klock thaws it."""
    holder = store.hold(NAME, "--ttl", "60s")
    os.kill(guard_of(holder.pid), signal.SIGSTOP)
    found(store)
    freed(store)
    assert holder.wait() == 79
