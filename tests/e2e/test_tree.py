# SPDX-License-Identifier: MIT
"""--tree: every descendant of the command counts, whatever group or session it has moved to."""
import json
import os
import signal
import time

import pytest
from support.proc import alive, holds_for, process, wait_until

# Prints its number and sleeps, in a session of its own and with nobody left to wait for it.
DAEMON = "(setsid sh -c 'echo $$; {0} exec sleep 1000' </dev/null 2>/dev/null &)"
STUBBORN = "trap \"\" TERM HUP INT QUIT;"


def numbers(holder, count):
    """The process numbers that the command's daemons have printed."""
    return wait_until(lambda: (found := [int(w) for w in holder.out.split() if w.isdigit()])[:count]
                      if len(holder.out.split()) >= count else None, what=f"{count} daemons")


def hold_with_daemons(store, *options, traps="", count=2, then="exec sleep 1000", **more):
    script = " ; ".join([DAEMON.format(traps)] * count + [then])
    holder = store.start("run", "--tree", *options, "n", "--", "sh", "-c", script, **more)
    return holder, numbers(holder, count)


def end(pids):
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def test_lock_is_held_until_the_last_daemon_has_ended_and_the_status_is_the_commands(every_store):
    holder, daemons = hold_with_daemons(every_store, then="exit 5")
    assert {process(pid).session for pid in daemons} == set(daemons), "each in a session of its own"
    for pid in daemons:
        assert holds_for(lambda: holder.status is None, 0.1)
        assert every_store.run("run", "-n", "n", "--", "true").status == 75
        end([pid])
    assert holder.wait() == 5 and holder.err == ""
    assert every_store.is_free("n")


def test_orphans_of_orphans_count(store):
    script = "(setsid sh -c '(setsid sh -c \"echo \\$\\$; exec sleep 1000\" &) ; exit' &) ; exit 0"
    holder = store.start("run", "--tree", "n", "--", "sh", "-c", script)
    grandchild = numbers(holder, 1)
    assert holds_for(lambda: holder.status is None, 0.2) and not store.is_free("n")
    end(grandchild)
    assert holder.wait() == 0


def test_next_one_starts_only_after_the_last_daemon(store):
    holder, daemons = hold_with_daemons(store, then="exit 0")
    waiter = store.queue("n", 1, "echo", "mine")[0]
    end(daemons[:1])
    assert holds_for(lambda: waiter.out == "", 0.2)
    end(daemons[1:])
    assert waiter.wait() == 0 and waiter.out == "mine\n" and holder.wait() == 0


def test_without_tree_a_daemon_keeps_nothing(store):
    holder = store.start("run", "n", "--", "sh", "-c", DAEMON.format("") + "; exit 5")
    daemon = numbers(holder, 1)
    assert holder.wait() == 5 and alive(daemon[0]) and store.is_free("n")
    end(daemon)


def test_tree_in_the_configuration(store):
    os.makedirs(f"{store.directory}/config/klock")
    with open(f"{store.directory}/config/klock/klock.toml", "w", encoding="utf8") as file:
        file.write("tree = true\n")
    holder = store.start("run", "n", "--", "sh", "-c", DAEMON.format("") + "; exit 5")
    daemon = numbers(holder, 1)
    assert holds_for(lambda: holder.status is None, 0.2)
    end(daemon)
    assert holder.wait() == 5


@pytest.mark.parametrize("then", ["exec sleep 1000", "exit 0"])
def test_max_hold_stops_them_all(every_store, then):
    holder, daemons = hold_with_daemons(every_store, "--max-hold", "500ms", then=then)
    assert holder.wait() == 124 and not any(map(alive, daemons)) and every_store.is_free("n")


def test_max_hold_kills_those_that_ignore_term(store):
    holder, daemons = hold_with_daemons(store, "--max-hold", "500ms", "-k", "0.2", traps=STUBBORN)
    assert holder.wait() == 124 and not any(map(alive, daemons)) and store.is_free("n")


@pytest.mark.parametrize("then", ["exec sleep 1000", "exit 0"])
def test_forced_release_stops_them_all(every_store, then):
    holder, daemons = hold_with_daemons(every_store, then=then)
    assert every_store.run("force-release", "--yes", "n").status == 0
    assert not any(map(alive, daemons)), "all dead before the release was told"
    assert holder.wait() == 79 and "by force" in holder.err


@pytest.mark.parametrize("then", ["exec sleep 1000", "exit 0"])
def test_lost_lease_stops_them_all(on_redis, client, then):
    holder, daemons = hold_with_daemons(on_redis, "--ttl", "3s", "-k", "0.2", traps=STUBBORN, then=then)
    client.delete("klock:n")
    assert holder.wait() == 79 and not any(map(alive, daemons))


@pytest.mark.parametrize("then", ["exec sleep 1000", "exit 0"])
def test_no_daemon_outlives_the_lease_of_a_frozen_klock(on_redis, client, then):
    holder, daemons = hold_with_daemons(on_redis, "--ttl", "2s", "-k", "0.2", traps=STUBBORN, then=then)
    os.kill(holder.pid, signal.SIGSTOP)

    def all_dead():
        gone = not client.exists("klock:n")
        living = [pid for pid in daemons if alive(pid)]
        assert not (gone and living), "the key is gone and a daemon lives"
        return not living

    wait_until(all_dead, what="the daemons are dead")
    os.kill(holder.pid, signal.SIGCONT)
    assert holder.wait() == 79


def test_forwarded_term_leaves_the_rest_kill_after_to_end(store):
    holder, daemons = hold_with_daemons(store, "-k", "1s", traps=STUBBORN)
    before = time.monotonic()
    holder.send(signal.SIGTERM)
    assert holds_for(lambda: all(map(alive, daemons)), 0.7)
    assert holder.wait() == 143 and time.monotonic() - before > 0.95
    assert not any(map(alive, daemons)) and store.is_free("n")


def test_term_reaches_the_daemons_once_the_command_has_ended(store):
    holder, daemons = hold_with_daemons(store, then="exit 3")
    assert holds_for(lambda: holder.status is None, 0.2)
    holder.send(signal.SIGTERM)
    assert holder.wait() == 3 and not any(map(alive, daemons))


@pytest.mark.parametrize("then", ["exec sleep 1000", "exit 0"])
def test_killed_klock_takes_them_all_with_it(every_store, then):
    holder, daemons = hold_with_daemons(every_store, "--ttl", "3s", "-k", "0.2", traps=STUBBORN, then=then)
    holder.send(signal.SIGKILL)
    while any(map(alive, daemons)):
        free = every_store.is_free("n")
        assert not free or not any(map(alive, daemons)), "released while a daemon lives"
    assert holder.wait() == 137
    wait_until(lambda: every_store.is_free("n"), timeout=2, what="released by the guard")


def test_killed_guard_takes_them_all_with_it(store):
    holder, daemons = hold_with_daemons(store, "-k", "0.2", traps=STUBBORN)
    guard = wait_until(lambda: process(process(holder.command).ppid), what="the guard").pid
    os.kill(guard, signal.SIGKILL)
    assert holder.wait() == 71 and not any(map(alive, daemons)) and store.is_free("n")


def test_a_daemon_that_forks_on_and_on_is_caught(store):
    script = "(setsid sh -c 'while :; do (exec sleep 0.01) & wait $!; done' </dev/null >/dev/null 2>&1 &) ; echo 1; exit 0"
    holder = store.start("run", "--tree", "-k", "0.2", "--max-hold", "0.5", "n", "--", "sh", "-c", script)
    assert holder.wait() == 124
    wait_until(lambda: len(store.leftovers()) == 0, what="nothing left")


def test_outcome_file_tells_the_commands_status_after_the_last_daemon(store, tmp_path):
    path = tmp_path / "outcome.json"
    holder, daemons = hold_with_daemons(store, "--outcome-file", str(path), then="exit 4")
    assert holds_for(lambda: not path.exists(), 0.3)
    end(daemons)
    assert holder.wait() == 4
    report = json.loads(path.read_text())
    assert (report["command"], report["outcome"]) == ({"exit": 4}, "completed") and report["held_ms"] >= 300
