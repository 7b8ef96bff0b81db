# SPDX-License-Identifier: MIT
"""The rights that the manual names for a user of Redis are enough, all are needed, and what is missing is told."""
import contextlib
import json
import os
import pathlib
import re
import subprocess

import pytest
from support import shells
from support.proc import wait_until

MANUAL = pathlib.Path(__file__).parents[2] / "man" / "klock-stores.7"
KEYS = ["~klock:*", "~{klock:*", "&{klock:*"]


def rights(*names):
    """Those of the blocks of these names in the manual."""
    blocks = dict(re.findall(r'^\.\\" rights: (\w+)\n\.Bd .*\n((?:\+.*\n)+)\.Ed', MANUAL.read_text(), re.M))
    return [right for name in names for right in blocks[name].split()]


@pytest.fixture
def user(make_klock, redis, client):
    """user(*rights, keys) is a klock whose user has these alone."""

    def make(*granted, keys=tuple(KEYS)):
        client.execute_command("ACL", "SETUSER", "job", "reset", "on", ">pw", *keys, *granted)
        return make_klock(f"redis://job:pw@127.0.0.1:{redis.port}")

    return make


@contextlib.contextmanager
def commands_of(redis, seen):
    """Adds the names of the commands that the server executes meanwhile, those of scripts too."""
    with subprocess.Popen(["redis-cli", "-p", str(redis.port), "monitor"], stdout=subprocess.PIPE, text=True) as monitor:
        assert monitor.stdout.readline() == "OK\n"
        yield
        mark = f"mark-{os.getpid()}"
        subprocess.run(["redis-cli", "-p", str(redis.port), "ping", mark], check=True, stdout=subprocess.DEVNULL)
        for line in monitor.stdout:
            if mark in line:
                break
            seen.update(re.findall(r'\] "(\w+)"', line.lower()))
        monitor.terminate()


def take_part(klock):
    """All that people who share locks do, on the right way and on others."""
    holder = klock.hold("n", "--min-hold", "10ms", command="read x; true", stdin=subprocess.PIPE)
    waiters = [klock.start("run", "-w", "20", *mode, "n", "--", "true") for mode in (["-x"], ["-s"], ["-s"], ["--slots", "2"])]
    wait_until(lambda: klock.run("run", "-n", "--max-waiters", "9", "n", "--", "true").status == 75)
    holder.popen.stdin.close()
    assert holder.wait() == 0, holder.err
    assert [waiter.wait(30) for waiter in waiters] == [0] * 4
    assert klock.run("run", "--once", "k", "--also", "m", "n", "--", klock.path, "run", "n", "--", "true").status == 0
    assert shells.finish(shells.start(klock, 'eval "$(klock acquire n)" && klock check n && klock renew n && '
                                             'klock release n')) == 0
    return holder, waiters


def test_locks(user, on_redis, redis):
    klock, seen = user(*rights("lock", "channels", "log")), set()
    with commands_of(redis, seen):
        holder, waiters = take_part(klock)
    assert all(running.err == "" for running in (holder, *waiters))
    told = {json.loads(line)["event"] for line in on_redis.run("log", "--json").out.splitlines()}
    assert {"acquired", "released", "waiting", "timed_out"} <= told
    needless = [right for right in rights("lock", "channels", "log") if right[1:].split("|")[0] not in seen]
    # For what happens seldom: many readers, waiters that are gone, a log after lost writes, a server that forgot scripts.
    assert set(needless) <= {"+zrevrange", "+zrangebyscore", "+zcard", "+zrank", "+xrevrange", "+eval"}, needless


def test_without_channels_whoever_waits_is_told_once_that_he_looks_again(user):
    klock = user(*rights("lock"))
    holder, waiters = take_part(klock)
    assert holder.err == ""
    for waiter in waiters:
        assert waiter.err.count("does not let this user subscribe") == 1 and waiter.err.count("\n") == 1


@pytest.mark.parametrize("missing", rights("lock"))
def test_each_right_of_locks_is_needed_before_anything_runs(user, on_redis, client, missing):
    klock = user(*(right for right in rights("lock", "channels", "log") if right != missing))
    client.script_flush()
    refused = 0
    for mode in (["-x"], ["-s"], ["--slots", "2"]):
        done = klock.run("run", *mode, "n", "--", "echo", "ran")
        assert (done.status, done.out) in ((0, "ran\n"), (77, "")), done.err
        refused += done.status == 77
        wait_until(lambda: not client.exists("klock:n"), what="nothing stays held")
        assert [key for key in client.keys() if client.pttl(key) == -1] == []
    on_redis.hold("n")
    waiter = klock.run("run", "-w", "300ms", "n", "--", "echo", "ran")
    assert waiter.status in (75, 77) and waiter.out == ""
    assert refused or waiter.status == 77, "a right that nothing needs"


def test_looking(user, on_redis, redis):
    on_redis.run("run", "--once", "k", "n", "--", "true")
    on_redis.hold("n")
    on_redis.hold("r", "-s")
    on_redis.queue("n", 1)
    klock, seen = user(*rights("read"), keys=("%R~klock:*", "%R~{klock:*")), set()
    with commands_of(redis, seen):
        for words in (["status", "n", "r"], ["list"], ["watch", "--once"], ["log"], ["stats"]):
            done = klock.run(*words)
            assert done.status == 0 and "n" in done.out and done.err == "", words
        assert klock.run("wait", "-w", "0", "n").status == 75
        assert klock.run("once", "show", "n", "k").status == 0
    needless = {right[1:].split("|")[0] for right in rights("read")} - seen
    assert not needless
    assert klock.run("run", "-n", "n", "--", "true").status == 77
    assert klock.run("once", "clear", "n", "k").status == 77


def test_clearing_a_mark(user, on_redis):
    on_redis.run("run", "--once", "k", "n", "--", "true")
    assert user("+del").run("once", "clear", "n", "k").status == 0
    assert on_redis.run("once", "show", "n", "k").status == 1


@pytest.mark.parametrize("options", [[], ["--now"]])
def test_freeing(user, on_redis, options):
    holder = on_redis.hold("n", "--ttl", "60s")
    done = user(*rights("lock", "channels", "force")).run("force-release", "--yes", *options, "n")
    assert done.status == 0, done.err
    assert holder.wait() == 79 and on_redis.is_free("n")


def test_without_scripts(user, on_redis, redis):
    klock, seen = user(*rights("plain"), "+publish", "+zadd", "+zremrangebyscore"), set()
    with commands_of(redis, seen):
        holder = klock.hold("n", command="read x; true", stdin=subprocess.PIPE)
        assert on_redis.run("run", "-n", "n", "--", "true").status == 75
        assert on_redis.run("list").out.splitlines()[1].startswith("n ")
        waiter = klock.start("run", "-w", "20", "n", "--", "echo", "ran")
        queued = on_redis.queue("n", 1)[0]
        wait_until(lambda: "looks again" in waiter.err, what="told")
        holder.popen.stdin.close()
        assert holder.wait() == 0 and holder.err == ""
        assert waiter.wait(30) == 0 and waiter.out == "ran\n" and waiter.err.count("\n") == 1
        assert queued.wait(30) == 0
        assert shells.finish(shells.start(klock, 'eval "$(klock acquire n)" && klock check n && klock renew n && '
                                                 'klock release n')) == 0
    assert on_redis.is_free("n")
    assert {right[1:] for right in rights("plain")} <= seen
    for words in (["--shared"], ["--slots", "2"], ["--max-waiters", "3"], ["--wait-replicas", "1"]):
        done = klock.run("run", *words, "n", "--", "true")
        assert done.status == 77 and words[0] in done.err


@pytest.mark.parametrize("missing", rights("plain"))
def test_each_right_is_needed_without_scripts(user, client, missing):
    done = user(*(right for right in rights("plain") if right != missing)).run("run", "n", "--", "echo", "ran")
    if missing == "+time":  # this host's clock stands in
        assert done.status == 0
    else:
        assert done.status == 77 and done.out == "", done.err
    wait_until(lambda: not client.exists("klock:n"), what="nothing stays held")


def test_a_command_without_scripts_dies_with_its_lease(user, on_redis, redis):
    klock = user(*rights("plain"))
    holder = klock.hold("n", "--ttl", "3s", command="sleep 1000")
    redis.freeze()
    assert holder.wait(20) == 79
    redis.thaw()
    wait_until(lambda: on_redis.is_free("n"), what="given back")


def test_a_killed_klock_without_scripts_is_released_by_its_guard(user, on_redis):
    holder = user(*rights("plain")).hold("n", "--ttl", "60s")
    os.kill(holder.pid, 9)
    wait_until(lambda: on_redis.is_free("n"), what="released")


def test_an_administrator_stops_a_run_without_scripts(user, on_redis):
    holder = user(*rights("plain")).hold("n", "--ttl", "3s")
    assert on_redis.run("force-release", "--yes", "n", timeout=30).status == 0
    assert holder.wait() == 79 and "by force" in holder.err


def test_a_database_other_than_0(make_klock, user, redis, client):
    klock = user(*rights("lock"), "+select")
    holder = make_klock(klock.url + "/3").hold("n")
    assert not client.exists("klock:n")
    assert make_klock(redis.url + "/3").state("n")["state"] == "held" and holder.status is None
    user(*rights("lock"))
    assert make_klock(klock.url + "/3").run("run", "m", "--", "true").status == 77
