# SPDX-License-Identifier: MIT
"""--unless: under the lock a check says whether the work is done already."""
import json
import os
import signal
import time

import pytest
from support.proc import SLOW, alive, group, holds_for, wait_until

LONG_CHECK = "echo checking $$; exec sleep 1000"
STUBBORN_CHECK = "trap '' TERM; echo checking $$; while :; do sleep 1; done"


def start_check(store, check, *options, **more):
    """A run in the midst of its check, and the check's process."""
    holder = store.start("run", *options, "--unless", check, "n", "--", "echo", "ran", **more)
    words = wait_until(lambda: holder.out.split()[:2] if "\n" in holder.out else None, what="the check runs")
    return holder, int(words[1])


def test_work_that_is_done_is_skipped_in_silence(every_store, tmp_path):
    report = tmp_path / "outcome"
    done = every_store.run("run", "--outcome-file", str(report), "--unless", "true", "n", "--", "echo", "ran")
    assert (done.status, done.out, done.err) == (0, "", "")
    told = json.loads(report.read_text())
    assert (told["outcome"], told["acquired"], told["command"], told["exit_status"]) == ("skipped", True, None, 0)
    assert every_store.is_free("n")


def test_skip_exit_code_and_verbose(store):
    done = store.run("run", "-v", "--skip-exit-code", "9", "--unless", "exit 0", "n", "--", "echo", "ran")
    assert (done.status, done.out) == (9, "") and "skipped" in done.err


@pytest.mark.parametrize("status", [1, 2, 9, 125, 128, 255])
def test_every_other_status_means_not_done(store, status):
    done = store.run("run", "--skip-exit-code", "9", "--unless", f"exit {status}", "n", "--", "sh", "-c", "echo ran; exit 4")
    assert (done.status, done.out, done.err) == (4, "ran\n", "")


def test_check_runs_under_the_lock_and_knows_it(store):
    check = f'echo $KLOCK_NAME $KLOCK_TOKEN $KLOCK_FENCE; "{store.path}" run -n -q n -- true; test $? = 75 && exit 1'
    env = {"KLOCK_HELD": ""}
    done = store.run("run", "--unless", "env -u KLOCK_TOKEN -u KLOCK_HELD sh -c '" + check + "'; exit 1",
                     "n", "--", "sh", "-c", "echo $KLOCK_NAME $KLOCK_TOKEN $KLOCK_FENCE", env=env)
    assert done.status == 0 and done.out.splitlines()[1].split()[0] == "n"


def test_check_reads_nothing_and_the_command_gets_stdin(store):
    started = store.start("run", "--unless", "wc -c; exit 1", "n", "--", "cat", stdin=-1)
    started.popen.communicate(b"hello\n", timeout=20 * SLOW)
    assert started.out.split() == ["0", "hello"] and started.status == 0


def test_shell_of_the_check_is_SHELL(store):
    done = store.run("run", "--unless", 'echo "${BASH_VERSION:+bash}"; exit 1', "n", "--", "true", env={"SHELL": "/bin/bash"})
    assert done.out == "bash\n"


def test_unknown_shell_is_found_out_before_anything_is_acquired(store):
    done = store.run("run", "--unless", "true", "n", "--", "echo", "ran", env={"SHELL": "/no/such/shell"})
    assert done.status == 127 and done.out == "" and "nothing was acquired" in done.err


@pytest.mark.parametrize("check, status", [
    ("/no/such/program", 127), ("exec /etc/passwd", 126), ("exit 126", 126), ("kill -USR1 $$", 128 + signal.SIGUSR1),
    ("kill -TERM $$", 143), ("kill -KILL $$", 137)])
def test_check_without_an_answer_runs_no_command(store, check, status):
    done = store.run("run", "--unless", check, "n", "--", "echo", "ran")
    assert done.status == status and done.out == "" and store.is_free("n")
    told = [line for line in done.err.splitlines() if line.startswith("klock: n: ")]
    assert len(told) == 1 and "--unless" in told[0], done.err


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP", "QUIT"])
@pytest.mark.parametrize("ending", ["exec sleep 1000", "trap 'exit 1' INT TERM HUP QUIT; sleep 1000 & wait",
                                    "trap 'exit 0' INT TERM HUP QUIT; sleep 1000 & wait"])
def test_signal_during_the_check_ends_the_run(store, name, ending):
    number = getattr(signal, f"SIG{name}")
    holder, check = start_check(store, f"echo checking $$; {ending}")
    holder.send(number)
    assert holder.wait() == 128 + number and "ran" not in holder.out
    assert not group(check) and store.is_free("n")


def test_other_signals_reach_the_check_and_end_nothing(store):
    holder, _ = start_check(store, "trap 'exit 1' USR1; echo checking $$; while :; do sleep 0.05; done")
    holder.send(signal.SIGUSR1)
    assert holder.wait() == 0 and holder.out.splitlines()[1:] == ["ran"]


@pytest.mark.parametrize("check", [LONG_CHECK, STUBBORN_CHECK])
def test_lease_lost_during_the_check(on_redis, client, check):
    holder, pid = start_check(on_redis, check, "--ttl", "3s", "-k", "0.2")
    client.delete("klock:n")
    assert holder.wait() == 79 and not alive(pid) and "ran" not in holder.out
    assert "lost" in holder.err and "check" in holder.err


@pytest.mark.parametrize("check", [LONG_CHECK, STUBBORN_CHECK])
def test_forced_release_during_the_check(every_store, check):
    holder, pid = start_check(every_store, check, "-k", "0.2")
    assert every_store.run("force-release", "--yes", "--reason", "stuck", "n").status == 0
    assert not alive(pid)
    assert holder.wait() == 79 and "ran" not in holder.out and "stuck" in holder.err


def test_frozen_klock_loses_its_check_before_the_key_can_expire(on_redis, client):
    holder, pid = start_check(on_redis, STUBBORN_CHECK, "--ttl", "2s", "-k", "0.2")
    os.kill(holder.pid, signal.SIGSTOP)
    while alive(pid):
        gone = not client.exists("klock:n")
        assert not gone or not alive(pid), "the key is gone and the check lives"
    os.kill(holder.pid, signal.SIGCONT)
    assert holder.wait() == 79 and "ran" not in holder.out


@pytest.mark.parametrize("check", [LONG_CHECK, STUBBORN_CHECK])
def test_killed_klock_takes_the_check_with_it_and_the_command_never_runs(every_store, check):
    holder, pid = start_check(every_store, check, "-k", "0.2")
    holder.send(signal.SIGKILL)
    while alive(pid):
        assert not every_store.is_free("n") or not alive(pid), "released while the check lives"
    holder.wait()
    wait_until(lambda: every_store.is_free("n"), what="released by the guard")
    assert "ran" not in holder.out


def test_max_hold_counts_from_the_check(store):
    before = time.monotonic()
    done = store.run("run", "--max-hold", "1s", "--unless", "sleep 0.7; exit 1", "n", "--", "sleep", "1000")
    assert done.status == 124 and time.monotonic() - before < 1.6 * SLOW
    done = store.run("run", "--max-hold", "300ms", "--unless", "sleep 1000", "n", "--", "echo", "ran")
    assert done.status == 124 and done.out == "" and "check" in done.err


def test_lease_is_renewed_through_check_and_command(on_redis, client, sections):
    holder = on_redis.start("run", "--ttl", "2s", "--unless", "sleep 3; exit 1", "n", "--",
                            *sections.command("a", 3000))
    wait_until(lambda: client.exists("klock:n"), what="held")
    token = client.get("klock:n")
    assert holds_for(lambda: holder.popen.poll() is not None or client.get("klock:n") in (token, None), 5)
    assert holder.wait() == 0 and holder.err == "" and sections.ended() == ["a"]


def test_waiters_do_the_work_once(store, tmp_path):
    result = tmp_path / "result"
    work = f"echo x >> {result}"
    first = store.start("run", "--unless", f"test -e {result}", "n", "-c", f"sleep 0.3; {work}")
    others = [store.start("run", "--unless", f"test -e {result}", "n", "-c", work) for _ in range(5)]
    assert [run.wait() for run in [first, *others]] == [0] * 6
    assert result.read_text() == "x\n"


def test_tree_waits_for_the_daemons_of_the_check(store):
    holder = store.start("run", "--tree", "--unless", "(setsid sleep 0.4 &); exit 1", "n", "--", "echo", "ran")
    assert holds_for(lambda: holder.out == "", 0.2)
    assert holder.wait() == 0 and holder.out == "ran\n"


NOT_STARTED = [("true", 0), ("/no/such/program", 127), ("exit 126", 126), ("kill -KILL $$", 137)]


@pytest.mark.parametrize("check, status", NOT_STARTED)
@pytest.mark.parametrize("mode", [("-x",), ("-s",), ("--slots", "2"), ("--also", "m")])
def test_min_hold_is_not_for_a_command_that_was_not_started(store, mode, check, status):
    done = store.run("run", "--min-hold", "1h", *mode, "--unless", check, "n", "--", "echo", "ran")
    assert (done.status, done.out) == (status, "") and store.is_free("n") and store.is_free("m")


def test_min_hold_counts_when_the_check_lets_the_command_run(store):
    assert store.run("run", "--min-hold", "1h", "--unless", "false", "n", "--", "true").status == 0
    assert store.state("n")["state"] == "cooldown"


def test_next_one_checks_at_once_after_a_skip_under_min_hold(every_store):
    first, _ = start_check(every_store, "echo checking $$; until test -e go; do sleep 0.02; done", "--min-hold", "1h")
    (waiter,) = every_store.queue("n", 1, "echo", "ran", options=("--min-hold", "1h", "--unless", "false"))
    every_store.let("go")
    assert first.wait() == 0 and waiter.wait() == 0 and waiter.out == "ran\n"
    assert every_store.state("n")["state"] == "cooldown"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_min_hold_ends_with_a_klock_that_ends_during_the_check(every_store, number):
    holder, pid = start_check(every_store, LONG_CHECK, "--min-hold", "1h", "-k", "0.2")
    holder.send(number)
    holder.wait()
    wait_until(lambda: every_store.is_free("n") and not alive(pid), what="released by the guard")


def test_outcome_of_a_check_that_cannot_be_run(store, tmp_path):
    report, shell = tmp_path / "outcome", tmp_path / "shell"
    shell.write_text("#!/no/such/interpreter\n")
    shell.chmod(0o755)
    done = store.run("run", "-v", "--outcome-file", str(report), "--unless", "true", "n", "--", "echo", "ran",
                     env={"SHELL": str(shell)})
    told = json.loads(report.read_text())
    assert done.status == told["exit_status"] == 127 and done.out == "" and store.is_free("n")
    assert (told["outcome"], told["acquired"], told["command"]) == ("error", True, None)
    assert told["reason"] == "cannot run the check of --unless: No such file or directory"
    said = [line.split("(")[0].strip() for line in done.err.splitlines() if line.startswith("klock: n: ")]
    assert said == [f"klock: n: acquired, fence {told['fence']}", "klock: n: released", f"klock: n: {told['reason']}"], done.err


def test_nobody_claims_a_release_that_failed(on_redis, redis):
    done = on_redis.run("run", "--ttl", "600ms", "--unless", f"kill -KILL {redis.popen.pid}; exit 127", "n", "--", "echo", "ran")
    assert done.status == 127 and "could not be confirmed" in done.err and "is released" not in done.err, done.err
