# SPDX-License-Identifier: MIT
"""A run within a run joins the hold of a lock that the outer one has."""
import os
import pathlib
import re
import signal
import time

import pytest
from support.proc import SLOW, alive, holds_for, wait_until, wipe_out


@pytest.fixture(params=["local", "redis"])
def nested(request):
    """(store, the words of a nested klock run)."""
    store = request.getfixturevalue(f"on_{request.param}")
    return store, f'"{store.path}" run'


def test_same_lock_is_joined_at_once(nested):
    store, run = nested
    done = store.run("run", "n", "--", "sh", "-c", f"{run} -n n -- sh -c 'echo inner; exit 4'")
    assert (done.status, done.out, done.err) == (4, "inner\n", "")
    assert store.is_free("n")


def test_verbose_says_that_it_joins(nested):
    store, run = nested
    assert "joins the hold of an ancestor" in store.run("run", "n", "--", "sh", "-c", f"{run} -v n -- true").err


def test_the_outer_run_keeps_the_lock(nested):
    store, run = nested
    holder = store.start("run", "n", "--", "sh", "-c", f"{run} n -- true; echo joined; exec sleep 1000")
    wait_until(lambda: "joined" in holder.out, what="joined and left")
    assert not store.is_free("n") and store.run("run", "-n", "n", "--", "true").status == 75
    assert len(store.state("n")["holders"]) == 1


def test_any_ancestor_counts_and_their_tokens_are_passed_on(nested):
    store, run = nested
    script = f"{run} b -- {run} c -- sh -c '{run} -n a -- {run} -n b -- sh -c \"echo \\$KLOCK_HELD\"'"
    done = store.run("run", "a", "--", "sh", "-c", script)
    assert done.status == 0, done.err
    tokens = done.out.split()
    assert len(tokens) == len(set(tokens)) == 5 and all(re.fullmatch("[0-9a-f]{32}", token) for token in tokens)


def test_a_joined_run_can_check_what_it_joined(nested):
    store, run = nested
    check = f'"{store.path}" check'
    assert store.run("run", "n", "--", "sh", "-c", f"{run} n -- sh -c '{check} n && ! {check} other'").status == 0


def test_held_is_only_the_own_token_at_the_top(store):
    held, token = store.run("run", "n", "--", "sh", "-c", "echo $KLOCK_HELD; echo $KLOCK_TOKEN").out.split()
    assert held == token


def test_another_lock_is_waited_for(nested):
    store, run = nested
    store.hold("b")
    assert store.run("run", "a", "--", "sh", "-c", f"{run} -n b -- echo ran").status == 75


@pytest.mark.parametrize("token", ["0" * 32, "x" * 32, "", "0" * 31, "../../etc"])
def test_a_made_up_token_counts_for_nothing(store, token):
    store.hold("n")
    done = store.run("run", "-n", "n", "--", "true", env={"KLOCK_HELD": token, "KLOCK_TOKEN": token})
    assert done.status == 75


def test_a_token_counts_for_nothing_after_the_release(store):
    token = store.run("run", "n", "--", "sh", "-c", "echo $KLOCK_TOKEN").out.strip()
    store.hold("n")
    assert store.run("run", "-n", "n", "--", "true", env={"KLOCK_TOKEN": token}).status == 75


def test_a_hundred_tokens_are_no_trouble(store):
    env = {"KLOCK_HELD": " ".join(f"{number:032x}" for number in range(100))}
    held = store.run("run", "n", "--", "sh", "-c", "echo $KLOCK_HELD", env=env).out.split()
    assert len(held) == 64 and held[0] == f"{0:032x}" and held[-2] == f"{99:032x}"


def test_forced_release_ends_both(nested):
    store, run = nested
    holder = store.start("run", "n", "--", "sh", "-c", f"{run} n -- sh -c 'echo $$; exec sleep 1000'; echo status $?")
    inner = int(wait_until(lambda: holder.out.split(), what="the inner command runs")[0])
    assert store.run("force-release", "--yes", "n").status == 0
    assert holder.wait() == 79
    wait_until(lambda: not alive(inner), what="the inner command is dead")


def test_lost_lease_ends_both(on_redis, client):
    script = f'"{on_redis.path}" run -k 0.2 n -- sh -c "trap \'\' TERM; echo \\$\\$; while :; do sleep 1; done"; echo status $?'
    holder = on_redis.start("run", "--ttl", "3s", "-k", "0.5", "n", "--", "sh", "-c", script)
    inner = int(wait_until(lambda: holder.out.split(), what="the inner command runs")[0])
    client.delete("klock:n")
    assert holder.wait() == 79
    wait_until(lambda: not alive(inner), what="the inner command is dead")


def test_inner_command_dies_before_the_lease_of_a_frozen_ancestor_ends(on_redis, client):
    script = f'"{on_redis.path}" run n -- sh -c "trap \'\' TERM; echo \\$\\$; while :; do sleep 1; done"'
    holder = on_redis.start("run", "--ttl", "2s", "n", "--", "sh", "-c", script)
    inner = int(wait_until(lambda: holder.out.split(), what="the inner command runs")[0])
    holder.send(signal.SIGSTOP)
    while alive(inner):
        gone = not client.exists("klock:n")
        assert not gone or not alive(inner), "the key is gone and the inner command lives"
    holder.send(signal.SIGCONT)
    assert holder.wait() == 79


@pytest.mark.parametrize("inner_lock", ["n", "other"])
def test_killed_outer_klock_releases_only_when_the_inner_command_is_dead(nested, inner_lock):
    store, run = nested
    stubborn = "sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1; done'"
    holder = store.start("run", "-k", "0.2", "n", "--", "sh", "-c", f"{run} -k 0.6 {inner_lock} -- {stubborn}")
    inner = int(wait_until(lambda: holder.out.split(), what="the inner command runs")[0])
    holder.send(signal.SIGKILL)
    while alive(inner):
        assert not store.is_free("n") or not alive(inner), "released while the inner command lives"
    wait_until(lambda: store.is_free("n"), what="released by the guard")


def joined_in_background(nested, how="", *options, inner="", ending="exit 3"):
    """(the outer run, which has ended; the pid of the inner command)."""
    store, run = nested
    inner = f"{how} {run} {inner} n -- sh -c 'echo $$; exec sleep 1000' </dev/null 2>/dev/null &"
    holder = store.start("run", *options, "n", "--", "sh", "-c",
                         inner + f" until test -e stop; do sleep 0.02; done; {ending}")
    pid = int(wait_until(lambda: holder.out.split(), what="the inner command runs")[0])
    store.let("stop")
    holder.wait()
    return holder, pid


@pytest.mark.parametrize("how", ["", "setsid"])
def test_one_that_joined_in_the_background_keeps_the_lock(nested, how):
    store = nested[0]
    holder, pid = joined_in_background(nested, how)
    assert holder.status == 3 and holder.err == ""
    assert alive(pid) and not store.is_free("n")
    assert store.run("run", "-n", "n", "--", "true").status == 75
    waiter = store.queue("n", 1, "echo", "mine")[0]
    os.kill(pid, signal.SIGTERM)
    assert waiter.wait() == 0 and waiter.out == "mine\n"
    wait_until(lambda: store.is_free("n"))


def test_lock_kept_by_one_that_joined_has_its_holder_shown(nested):
    store = nested[0]
    holder, pid = joined_in_background(nested, "", "-m", "weekly")
    shown = store.state("n")["holders"]
    assert [(one["pid"], one["message"]) for one in shown] == [(holder.pid, "weekly")]
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: store.is_free("n"))


@pytest.mark.parametrize("how", ["", "setsid"])
def test_forced_release_reaches_one_that_joined_in_the_background(nested, how):
    _, pid = joined_in_background(nested, how)
    assert nested[0].run("force-release", "--yes", "n").status == 0
    assert not alive(pid) and nested[0].is_free("n")


def test_forced_removal_reaches_one_that_joined_in_the_background(nested):
    store = nested[0]
    _, pid = joined_in_background(nested)
    waiter = store.queue("n", 1, "echo", "mine")[0]
    assert store.run("force-release", "--yes", "--now", "n").status == 0
    assert waiter.wait(3) == 0 and waiter.out == "mine\n"
    wait_until(lambda: not alive(pid), what="the inner command is dead")


@pytest.mark.parametrize("how", [[], ["--now"]])
def test_one_that_joined_is_told_by_whom_and_why(nested, how):
    store, run = nested
    inner = f"{run} n -- sh -c 'echo $$; exec sleep 1000' </dev/null 2>inner.err; echo status $? >inner.out"
    holder = store.start("run", "n", "--", "sh", "-c", f"( {inner} ) & until test -e stop; do sleep 0.02; done; exit 3")
    wait_until(lambda: holder.out.split(), what="the inner command runs")
    store.let("stop")
    assert holder.wait() == 3
    assert store.run("force-release", "--yes", *how, "--reason", "it hangs", "n").status == 0
    files = [pathlib.Path(store.directory, name) for name in ("inner.out", "inner.err")]
    wait_until(lambda: files[0].exists() and files[0].read_text() == "status 79\n", what="the inner run ends")
    assert "by force by" in files[1].read_text() and "it hangs" in files[1].read_text()


def test_stale_spares_what_only_a_joined_run_keeps(nested):
    store = nested[0]
    _, pid = joined_in_background(nested)
    done = store.run("force-release", "--yes", "--stale", "n")
    assert done.status == 1 and "not proven dead" in done.err, done.err
    assert alive(pid) and not store.is_free("n")
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: store.is_free("n"))


def test_slots_that_only_joined_runs_keep_still_count(nested):
    store = nested[0]
    holder, pid = joined_in_background(nested, "", "--slots", "1", inner="--slots 1", ending="exit 0")
    assert holder.status == 0
    assert store.run("run", "-n", "--slots", "3", "n", "--", "true").status == 78
    assert store.run("run", "-n", "--slots", "1", "n", "--", "true").status == 75
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: store.is_free("n"))


def test_outer_limits_end_with_the_outer_command(nested):
    store = nested[0]
    holder, pid = joined_in_background(nested, "", "--max-hold", "30s", "--once", "k", ending="exit 0")
    assert holder.status == 0 and alive(pid)
    assert store.run("once", "show", "n", "k").status == 0
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: store.is_free("n"))


def test_run_in_the_background_that_joined_another_lock_keeps_nobody(nested):
    store, run = nested
    script = f"setsid {run} b -- {run} b -- sh -c 'echo $$; exec sleep 1000' </dev/null 2>/dev/null & until test -e stop; do sleep 0.02; done"
    holder = store.start("run", "n", "--", "sh", "-c", script)
    pid = int(wait_until(lambda: holder.out.split(), what="the inner command runs")[0])
    store.let("stop")
    assert holder.wait() == 0 and alive(pid) and store.is_free("n")
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: store.is_free("b"))


def test_script_of_a_joined_run_can_renew_what_it_joined(on_redis, client):
    script = f'"{on_redis.path}" run n -- "{on_redis.path}" renew --ttl 60s n'
    holder = on_redis.start("run", "n", "--", "sh", "-c", script + "; echo renewed; exec sleep 1000")
    wait_until(lambda: "renewed" in holder.out, what="renewed")
    assert client.pttl("klock:n") > 40000 and holder.err == ""


def test_what_a_joined_run_starts_still_joins_after_the_outer_run_has_ended(nested):
    store, run = nested
    klock = f'"{store.path}"'
    deeper = (f"until test -e go; do sleep 0.02; done; {run} -n n -- echo deeper; {klock} check n; echo check $?;"
              f" {klock} release -q n; echo release $?; {klock} check n; echo end $?")
    inner = f"{run} n -- sh -c 'echo up; {deeper}' </dev/null &"
    holder = store.start("run", "n", "--", "sh", "-c", inner + " until test -e stop; do sleep 0.02; done")
    wait_until(lambda: "up" in holder.out, what="the inner command runs")
    store.let("stop")
    assert holder.wait() == 0
    store.let("go")
    wait_until(lambda: "end" in holder.out, what="the inner command has ended")
    assert holder.out.splitlines() == ["up", "deeper", "check 0", "release 1", "end 0"]
    wait_until(lambda: store.is_free("n"))


def test_inner_run_with_another_ttl_lives_on_the_ancestors_renewals(on_redis):
    for outer, inner in (("1s", "15s"), ("15s", "1s")):
        before = time.monotonic()
        script = f'"{on_redis.path}" run --ttl {inner} n -- sleep {2 * SLOW}'
        done = on_redis.run("run", "--ttl", outer, "n", "--", "sh", "-c", script)
        assert (done.status, done.err) == (0, ""), (outer, inner)
        assert time.monotonic() - before >= 2 * SLOW


def test_min_hold_of_the_inner_run_marks_nothing(nested):
    store, run = nested
    assert store.run("run", "n", "--", "sh", "-c", f"{run} --min-hold 1h n -- true").status == 0
    assert store.run("run", "-n", "n", "--", "true").status == 0


def test_once_of_the_inner_run_is_marked(nested):
    store, run = nested
    assert store.run("run", "n", "--", "sh", "-c", f"{run} --once k n -- true").status == 0
    assert store.run("once", "show", "n", "k").status == 0
    assert store.run("run", "n", "--", "sh", "-c", f"{run} --once k n -- echo ran").out == ""


def test_shared_hold_is_joined_as_shared_and_not_as_exclusive(nested):
    store, run = nested
    assert store.run("run", "-s", "n", "--", "sh", "-c", f"{run} -n -s n -- echo in").out == "in\n"
    done = store.run("run", "-s", "n", "--", "sh", "-c", f"{run} n -- echo in")
    assert done.status == 78 and done.out == "" and done.err.count("\n") == 1


def test_exclusive_hold_is_joined_as_shared(nested):
    store, run = nested
    assert store.run("run", "n", "--", "sh", "-c", f"{run} -n -s n -- echo in").out == "in\n"


def test_next_waiter_does_not_start_within_the_inner_run(nested):
    store, run = nested
    holder = store.start("run", "n", "--", "sh", "-c", f"{run} n -- sh -c 'echo up; until test -e go; do sleep 0.02; done'")
    wait_until(lambda: "up" in holder.out, what="joined")
    waiter = store.queue("n", 1, "echo", "mine")[0]
    assert holds_for(lambda: waiter.out == "", 0.4)
    store.let("go")
    assert holder.wait() == 0 and waiter.wait() == 0


def test_killed_outer_run_leaves_its_hold_to_one_in_the_background(on_local):
    """Its guard is killed too: nobody is left to write anything."""
    store, run = on_local, f'"{on_local.path}" run'
    inner = f"setsid {run} n -- sh -c 'echo $$; until test -e deeper; do sleep 0.02; done; {run} -n n -- echo joined; exec sleep 1000'"
    holder = store.start("run", "n", "--", "sh", "-c", f"{inner} </dev/null 2>/dev/null & echo $KLOCK_TOKEN; exec sleep 1000")
    wait_until(lambda: len(holder.out.split()) == 2, what="the inner command runs")
    pid, token = sorted(holder.out.split(), key=len)
    before = store.state("n")["holders"]
    wipe_out(holder)
    wait_until(lambda: store.run("check", "--token", token, "n").status == 1, what="the token counts for nothing")
    assert store.run("run", "-n", "n", "--", "true", env={"KLOCK_TOKEN": token}).status == 75
    assert [holder["id"] for holder in store.state("n")["holders"]] == [before[0]["id"]]
    store.let("deeper")
    wait_until(lambda: "joined" in holder.out, what="joined through the one that has joined")
    os.kill(int(pid), signal.SIGTERM)
    wait_until(lambda: store.is_free("n"), what="the last one has released")
