# SPDX-License-Identifier: MIT
"""--once: of all that start, exactly one does the work, and whoever comes later finds it done."""
import json
import os
import pathlib
import signal
import stat

import pytest
from support.proc import SLOW, wait_until


UNTIL_GO = "until test -e go; do sleep 0.02; done"


def run_once(store, *options, key="today", command=("echo", "ran"), **more):
    return store.run("run", "--once", key, *options, "n", "--", *command, **more)


def test_second_run_is_skipped_in_silence(every_store, tmp_path):
    assert run_once(every_store).out == "ran\n"
    report = tmp_path / "outcome"
    done = run_once(every_store, "--outcome-file", str(report))
    assert (done.status, done.out, done.err) == (0, "", "")
    told = json.loads(report.read_text())
    assert (told["outcome"], told["acquired"], told["command"], told["exit_status"]) == ("skipped", False, None, 0)
    assert run_once(every_store, key="tomorrow").out == "ran\n"
    assert every_store.run("run", "--once", "today", "other", "--", "echo", "ran").out == "ran\n", "another lock"
    assert every_store.is_free("n")


def test_skip_exit_code_and_verbose_tells_who_and_when(store):
    run_once(store)
    done = run_once(store, "-v", "--skip-exit-code", "9")
    assert done.status == 9 and done.out == ""
    assert "skipped" in done.err and "completed by" in done.err and "echo" in done.err


@pytest.mark.parametrize("command, status", [(("sh", "-c", "exit 3"), 3), (("sh", "-c", "kill -KILL $$"), 137)])
def test_a_command_that_failed_has_not_completed_it(store, command, status):
    assert run_once(store, command=command).status == status
    assert run_once(store).out == "ran\n"


def test_a_stopped_command_has_not_completed_it(store):
    done = run_once(store, "--max-hold", "300ms", command=("sh", "-c", "trap 'exit 0' TERM; sleep 1000 & wait"))
    assert done.status == 124
    assert run_once(store).out == "ran\n"


def test_a_forced_release_has_not_completed_it(store):
    holder = store.hold("n", "--once", "today", command="trap 'exit 0' TERM; sleep 1000 & wait")
    assert store.run("force-release", "--yes", "n").status == 0
    assert holder.wait() == 79
    assert run_once(store).out == "ran\n"


def test_a_killed_klock_has_not_completed_it(store):
    holder = store.hold("n", "--once", "today", command="trap 'exit 0' TERM; sleep 1000 & wait")
    holder.send(signal.SIGKILL)
    holder.wait()
    assert run_once(store).out == "ran\n"


def test_a_lost_lease_has_not_completed_it(on_redis, client):
    holder = on_redis.hold("n", "--once", "today", "--ttl", "3s", command="trap 'exit 0' TERM; sleep 1000 & wait")
    client.delete("klock:n")
    assert holder.wait() == 79
    assert run_once(on_redis).out == "ran\n"


def test_waiters_find_it_done(store):
    first = store.hold("n", "--once", "today", command=UNTIL_GO)
    waiters = store.queue("n", 4, "echo", "ran", options=("--once", "today"))
    store.let("go")
    assert first.wait() == 0
    assert [(waiter.wait(), waiter.out) for waiter in waiters] == [(0, "")] * 4
    wait_until(lambda: store.is_free("n"), what="free")


def test_the_next_waiter_does_what_the_first_one_failed_to_do(store):
    first = store.hold("n", "--once", "today", command=UNTIL_GO + "; exit 1")
    waiters = store.queue("n", 3, "echo", "ran", options=("--once", "today"))
    store.let("go")
    assert first.wait() == 1
    assert sorted((waiter.wait(), waiter.out) for waiter in waiters) == [(0, ""), (0, ""), (0, "ran\n")]


def test_exactly_one_of_twenty_that_start_at_once_runs(store, child, tmp_path):  # R59
    rounds = 500 if SLOW <= 1 else 20
    log = str(tmp_path / "round%r")
    rally = store.start_program(child, "rally", str(rounds), "20", store.path, "run", "--once", "r%r", "n", "--",
                                "/bin/sh", "-c", 'echo x >> "$0"', log)
    assert rally.wait(600) == 0, rally.err
    assert [(tmp_path / f"round{i}").read_text() for i in range(rounds)] == ["x\n"] * rounds


def test_marker_expires(store):
    run_once(store, "--once-ttl", f"{SLOW}s")
    assert run_once(store).out == ""
    wait_until(lambda: store.run("once", "show", "n", "today").status == 1, what="the mark has expired")
    assert run_once(store).out == "ran\n"


def test_check_that_finds_it_done_marks_nothing(store):
    assert run_once(store, "--unless", "true").out == ""
    assert run_once(store).out == "ran\n"


def test_once_show_and_clear(every_store):
    assert every_store.run("once", "show", "n", "today").status == 1
    assert every_store.run("once", "clear", "n", "today").status == 1
    run_once(every_store, "-m", "by hand")
    shown = every_store.run("once", "show", "n", "today")
    assert shown.status == 0 and shown.err == "" and shown.out.count("\n") == 1
    for part in ("today", "completed by", "echo", "by hand", "kept for"):
        assert part in shown.out, part
    told = json.loads(every_store.run("once", "show", "--json", "n", "today").out)
    assert told["completed"] and told["once"] == "today" and told["name"] == "n" and told["program"] == "echo"
    assert 29 * 86_400_000 < told["expires_in_ms"] <= 30 * 86_400_000
    assert every_store.run("once", "show", "n", "tomorrow").status == 1
    cleared = every_store.run("once", "clear", "n", "today")
    assert (cleared.status, cleared.out, cleared.err) == (0, "", "")
    assert run_once(every_store).out == "ran\n"


def test_once_show_escapes_what_others_wrote(store):
    run_once(store, "-m", "\x1b[2Jboo")
    assert "\x1b" not in store.run("once", "show", "n", "today").out
    assert "\x1b" not in store.run("once", "show", "--json", "n", "today").out


def test_an_unconfirmed_release_says_that_the_mark_may_be_missing(on_redis, redis):
    holder = on_redis.hold("n", "--once", "today", "--ttl", "2s", command="cat > /dev/null", stdin=-1)
    redis.kill()
    holder.popen.stdin.close()
    assert holder.wait() == 0
    assert "could not be confirmed" in holder.err and "--once" in holder.err


def test_once_needs_no_lock_to_look(store):
    store.hold("n", "--once", "today")
    assert store.run("once", "show", "n", "today").status == 1


def test_no_file_is_left_for_a_mark_that_has_expired(on_local, local_directory):
    run_once(on_local, "--once-ttl", f"{SLOW}s")
    wait_until(lambda: on_local.run("once", "show", "n", "today").status == 1, what="the mark has expired")
    assert run_once(on_local, key="other").out == "ran\n" and on_local.run("once", "clear", "n", "other").status == 0
    assert not [name for name in os.listdir(local_directory) if "today" in name]


def modes_of(directory, pattern):
    return {stat.S_IMODE(path.stat().st_mode) for path in pathlib.Path(directory).rglob(pattern)}


def test_marks_of_a_user_are_as_private_as_the_log(make_klock, as_nobody):
    klock = make_klock()
    assert as_nobody(klock, "run", "--once", "today", "n", "--", "true").wait() == 0
    state = f"{klock.directory}/home/.local/state/klock"
    assert modes_of(state, "once") == {0o700}
    assert modes_of(state, "*.once") == modes_of(state, "events.log") == {0o600}


def test_marks_of_a_shared_directory_are_for_all_who_share_it(make_klock, tmp_path, as_nobody):
    directory = tmp_path / "shared"
    directory.mkdir()
    directory.chmod(0o1777)
    klock = make_klock(f"local:{directory}")
    done = klock.start_program("sh", "-c", 'umask 077; exec "$0" run --once today n -- true', klock.path)
    assert done.wait() == 0 and modes_of(directory, "*.once") == {0o644}
    other = as_nobody(klock, "run", "--once", "today", "n", "--", "echo", "ran")
    assert other.wait() == 0 and other.out == "", other.err


def test_a_lost_companion_leaves_no_mark(store):
    done = store.run("run", "--once", "k", "a", "--also", "b", "--", store.path, "force-release", "--now", "--yes", "-q", "b")
    assert done.status == 79
    assert store.run("once", "show", "a", "k").status == 1
