# SPDX-License-Identifier: MIT
"""The process that keeps a shell's lock: how long it does, and what it tells the shell."""
import os
import signal
import subprocess
import time

import pytest
from support import shells
from support.proc import SLOW, alive, children, holds_for, memory_of, process, wait_until



def telling(klock, words, trap="TERM"):
    """A script that ends with status 3 when the signal comes."""
    text = (f"trap 'echo told; exit 3' {trap}; eval \"$(klock acquire {words})\" || exit; echo up $KLOCK_TOKEN;"
            " while :; do read -t 0.05 line; done")
    script = shells.start(klock, text)
    wait_until(lambda: "up" in script.out or script.status is not None, what="held")
    assert script.status is None, script.err
    script.token = script.out.split()[1]
    return script


@pytest.mark.parametrize("shell", [*shells.POSIX, "fish"])
def test_renews_until_the_shell_ends(store, shell):
    script = shells.hold(store, "--ttl 300ms n", shell)
    assert holds_for(lambda: not store.is_free("n"), 0.8)
    assert shells.finish(script) == 0
    wait_until(lambda: store.is_free("n") and not shells.keepers(store), what="released, and the keeper gone")


@pytest.mark.parametrize("shell", [*shells.POSIX, "fish"])
def test_killed_shell_releases_at_once(store, shell):
    script = shells.hold(store, "--ttl 60s n", shell)
    script.send(signal.SIGKILL)
    wait_until(lambda: store.is_free("n"), timeout=2, what="released")


def test_next_waiter_starts_when_the_shell_is_killed(store):
    script = shells.hold(store, "--ttl 60s n")
    (waiter,) = store.queue("n", 1)
    script.send(signal.SIGKILL)
    assert waiter.wait(3) == 0


def test_subshell_has_a_hold_of_its_own(store):
    text = ("(" + shells.HOLD.format(words="n") + "); echo after; read -r line")
    script = shells.start(store, text)
    wait_until(lambda: "up" in script.out, what="held")
    assert store.state("n")["holders"][0]["pid"] != script.pid
    script.popen.stdin.write(b"\n")
    script.popen.stdin.flush()
    wait_until(lambda: "after" in script.out and store.is_free("n"), what="released with the subshell")
    assert script.status is None
    script.popen.stdin.close()


def test_hold_outlives_an_exec(store):
    script = shells.start(store, 'eval "$(klock acquire --ttl 300ms n)" || exit; echo up; exec cat')
    wait_until(lambda: "up" in script.out, what="held")
    assert holds_for(lambda: not store.is_free("n"), 0.6)
    script.popen.stdin.close()
    wait_until(lambda: store.is_free("n"), what="released")


def test_pid_names_another_process(store):
    other = subprocess.Popen(["sleep", "1000"])
    try:
        done = store.run("acquire", "--pid", str(other.pid), "n")
        assert done.status == 0
        (held,) = store.state("n")["holders"]
        assert held["pid"] == other.pid and held["program"] == "sleep"
    finally:
        other.kill()
        other.wait()
    wait_until(lambda: store.is_free("n"), what="released")


def test_status_shows_the_shell(store):
    script = shells.hold(store, "-m 'page 7' n")
    (held,) = store.state("n")["holders"]
    assert held["pid"] == script.pid and held["program"] == "bash" and held["message"] == "page 7"
    busy = store.run("run", "-n", "n", "true")
    assert busy.status == 75 and f"pid {script.pid} (bash)" in busy.err and "page 7" in busy.err
    assert process(shells.keeper(store)).comm == "klock-keeper"
    assert shells.finish(script) == 0


def test_term_to_the_keeper_releases(store):
    script = shells.hold(store, "n")
    os.kill(shells.keeper(store), signal.SIGTERM)
    wait_until(lambda: store.is_free("n"), what="released")
    assert shells.finish(script) == 0


def test_other_signals_are_nothing_to_the_keeper(store):
    script = shells.hold(store, "--ttl 300ms n")
    pid = shells.keeper(store)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGUSR1, signal.SIGPIPE):
        os.kill(pid, number)
    assert holds_for(lambda: alive(pid) and not store.is_free("n"), 0.6)
    assert shells.finish(script) == 0


def test_ignored_term_of_the_shell_is_not_the_keepers(store):
    script = shells.start(store, "trap '' TERM; " + shells.HOLD.format(words="n"))
    wait_until(lambda: "up" in script.out, what="held")
    os.kill(shells.keeper(store), signal.SIGTERM)
    wait_until(lambda: store.is_free("n"), what="released")
    assert shells.finish(script) == 0


def lose(klock, request):
    """Takes the record away."""
    if klock.url.startswith("local:"):
        directory = request.getfixturevalue("local_directory")
        for path in directory.glob("*n.lock"):
            path.unlink()
    else:
        request.getfixturevalue("client").delete("klock:n")


def test_loss_signals_the_shell(store, request):
    script = telling(store, "--ttl 600ms n")
    lose(store, request)
    assert script.wait() == 3 and "told" in script.out
    wait_until(lambda: not shells.keepers(store), what="the keeper ends")


def test_loss_ends_a_shell_without_a_trap(store, request):
    script = shells.hold(store, "--ttl 600ms n")
    lose(store, request)
    assert script.wait() == 128 + signal.SIGTERM and "over" not in script.out


def test_signal_and_on_lost(store, request):
    script = telling(store, "--ttl 600ms --signal USR1 n", trap="USR1")
    lose(store, request)
    assert script.wait() == 3
    script = shells.hold(store, "--ttl 600ms --on-lost warn n")
    lose(store, request)
    wait_until(lambda: not shells.keepers(store), what="the keeper ends")
    assert shells.finish(script) == 0 and "over" in script.out and "sent SIG" not in script.err


def test_vanished_server_is_a_loss_before_the_lease_ends(on_redis, redis):
    script = telling(on_redis, "--ttl 1500ms n")
    redis.freeze()
    begun = time.monotonic()
    assert script.wait() == 3
    assert time.monotonic() - begun < 1.5 * SLOW
    redis.thaw()


def test_short_trouble_is_none(on_redis, redis):
    script = shells.hold(on_redis, "--ttl 3s n")
    redis.freeze()
    assert holds_for(lambda: script.status is None, 1.2)
    redis.thaw()
    assert holds_for(lambda: script.status is None and not on_redis.is_free("n"), 0.5)
    assert shells.finish(script) == 0


def test_frozen_keeper_is_a_loss(on_redis):
    script = telling(on_redis, "--ttl 400ms n")
    pid = shells.keeper(on_redis)
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: on_redis.is_free("n"), what="the lease has ended")
    assert script.status is None
    os.kill(pid, signal.SIGCONT)
    assert script.wait() == 3


def test_forced_release_signals_the_shell(store):
    script = telling(store, "--ttl 3s n")
    done = store.run("force-release", "--yes", "--reason", "why", "n")
    assert done.status == 0, done.err
    assert script.wait() == 3
    assert store.is_free("n")


def test_forced_release_never_overlaps_with_the_shell(store):
    """A shell that takes no notice keeps the lock until it ends."""
    script = shells.start(store, "trap 'true' TERM; eval \"$(klock acquire --ttl 1500ms n)\" || exit; echo up;"
                                 " while :; do read -t 0.05 line; done")
    wait_until(lambda: "up" in script.out, what="held")
    assert store.run("force-release", "--yes", "-w", "3s", "n").status == 75
    assert not store.is_free("n")
    script.send(signal.SIGKILL)
    wait_until(lambda: store.is_free("n"), what="released at the end of the shell")


def test_forced_removal_signals_the_shell_whatever_it_does_on_loss(store):
    script = telling(store, "--ttl 3s --on-lost warn n")
    assert store.run("force-release", "--yes", "--now", "n").status == 0
    assert script.wait() == 3


def test_removed_record_signals_the_shell(store):
    script = telling(store, "--ttl 3s n")
    assert store.run("force-release", "--yes", "--now", "n").status == 0
    assert script.wait() == 3


def test_release_ends_the_keeper_and_signals_nobody(store):  # needs the stores' release by token
    script = shells.start(store, "trap 'echo told' TERM; eval \"$(klock acquire n)\" || exit; echo up; read -r line;"
                                 " klock release n; echo released $?; read -r line; echo over")
    wait_until(lambda: "up" in script.out, what="held")
    script.popen.stdin.write(b"\n")
    script.popen.stdin.flush()
    wait_until(lambda: "released" in script.out, what="released")
    assert "released 0" in script.out and store.is_free("n")
    wait_until(lambda: not shells.keepers(store), what="the keeper ends")
    assert shells.finish(script) in (0, 1)
    assert "told" not in script.out and script.err == ""


def test_stale_means_shell_and_keeper(on_redis):
    script = shells.hold(on_redis, "--ttl 60s n")
    pid = shells.keeper(on_redis)
    os.kill(pid, signal.SIGSTOP)
    refused = on_redis.run("force-release", "--yes", "--stale", "n")
    assert refused.status == 1  # the shell lives
    script.send(signal.SIGKILL)
    script.wait()
    assert on_redis.run("force-release", "--yes", "--stale", "n").status == 1  # the keeper lives
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not alive(pid), what="the keeper is dead")
    assert on_redis.run("force-release", "--yes", "--stale", "n").status == 0
    assert on_redis.is_free("n")


def test_stale_sees_what_was_started_under_an_earlier_hold(on_redis):
    """Its KLOCK_TOKEN is the second lock's by then; KLOCK_HELD has both."""
    script = shells.start(on_redis, 'eval "$(klock acquire --ttl 60s a)"; eval "$(klock acquire --ttl 60s b)";'
                                    " sleep 1000 & echo up; read -r line")
    wait_until(lambda: "up" in script.out, what="held")
    (sleeper,) = wait_until(lambda: [p for p in children(script.pid) if p.comm == "sleep"], what="sleep runs")
    for pid in shells.keepers(on_redis):
        os.kill(pid, signal.SIGKILL)
    script.send(signal.SIGKILL)
    script.wait()
    assert on_redis.run("force-release", "--yes", "--stale", "a").status == 1
    os.kill(sleeper.pid, signal.SIGKILL)
    wait_until(lambda: not alive(sleeper.pid), what="it is dead")
    assert on_redis.run("force-release", "--yes", "--stale", "a").status == 0


def test_keeper_under_run_does_not_keep_the_run(store):
    done = store.run("run", "outer", "--", "sh", "-c", f'eval "$({store.path} acquire n)"; exit 4')
    assert done.status == 4
    wait_until(lambda: store.is_free("n"), what="released")


def test_token_is_in_no_argument_list(store):
    script = shells.hold(store, "n")
    assert script.token.encode() not in memory_of(shells.keeper(store), "cmdline")
    for words in (["status", "n"], ["run", "-n", "n", "true"], ["acquire", "-n", "n"]):
        done = store.run(*words)
        assert script.token not in done.out + done.err
    assert shells.finish(script) == 0


def test_idle_keeper_costs_nothing(store):
    script = shells.hold(store, "n")
    pid = shells.keeper(store)

    def ticks():
        fields = memory_of(pid, "stat").decode().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    before = ticks()
    assert holds_for(lambda: alive(pid), 1.5)
    assert ticks() - before <= 1
    assert shells.finish(script) == 0


def test_renewal_trouble_is_told_once_and_when_it_is_over(on_redis, redis):
    script = shells.hold(on_redis, "--ttl 15s n")
    redis.freeze()
    wait_until(lambda: "can't be renewed just now" in script.err, timeout=15, what="told")
    redis.thaw()
    wait_until(lambda: "renewed again" in script.err, timeout=15, what="told that it is over")
    assert script.err.count("\n") == 2
    assert shells.finish(script) == 0


def test_a_lease_that_ends_is_told(on_redis, redis):
    script = telling(on_redis, "--ttl 2s n")
    redis.freeze()
    assert script.wait() == 3 and "could not be renewed" in script.err and "SIGTERM" in script.err


def test_a_relative_audit_file_stays_where_it_is(store):
    script = shells.hold(store, "--audit-file trail n")
    assert shells.finish(script) == 0
    trail = os.path.join(store.directory, "trail")
    wait_until(lambda: open(trail, encoding="utf8").read().count("released") == 1, what="the keeper writes there too")


def test_a_klock_that_dies_before_it_has_told_the_shell_is_told(on_local):
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    try:
        while os.write(theirs, b"x" * 4096):
            pass
    except BlockingIOError:
        os.set_blocking(theirs, True)
    asking = on_local.start("acquire", "--pid", str(os.getpid()), "n", stdout=theirs)
    wait_until(lambda: shells.keepers(on_local), what="the keeper is there")
    asking.send(signal.SIGKILL)
    asking.wait()
    wait_until(lambda: not shells.keepers(on_local), what="released")
    os.close(ours)
    os.close(theirs)
    last = on_local.run("log", "n").out.splitlines()[-1]
    assert "released" in last and "klock died before the shell had its lock" in last


def test_a_release_is_heard_at_once(on_redis, redis):
    """Even within the first second, and long before a renewal would tell: once the server has gone nothing can be told."""
    script = shells.start(on_redis, 'eval "$(klock acquire --ttl 90s n)" || exit; echo up; read -r line;'
                                    ' klock release n || exit 9; echo released; read -r line; echo survived')
    wait_until(lambda: "up" in script.out, what="it is held")
    wait_until(lambda: redis.client().pubsub_channels("*wake:*"), what="the keeper listens")
    script.popen.stdin.write(b"\n")
    script.popen.stdin.flush()
    wait_until(lambda: "released" in script.out or script.status is not None, what="it is released")
    wait_until(lambda: not shells.keepers(on_redis), timeout=10, what="the keeper has ended")
    redis.kill()
    assert shells.finish(script) == 0 and "survived" in script.out, script.err
