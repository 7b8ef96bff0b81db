# SPDX-License-Identifier: MIT
"""What everyone meets first: run a command under a lock, be told that it is busy, get the status back."""
import getpass
import json
import os
import re
import signal
import socket
import time

import pytest
from support.proc import SLOW, alive, wait_until


def test_prints_only_what_the_command_prints(every_store):
    done = every_store.run("run", "n", "--", "echo", "hi")
    assert (done.status, done.out, done.err) == (0, "hi\n", "")


def test_busy_is_75_and_one_line_that_names_the_holder(every_store):  # C61
    holder = every_store.hold("n")
    done = every_store.run("run", "-n", "n", "--", "echo", "no")
    assert (done.status, done.out) == (75, "")
    assert done.err.startswith("klock: n: ") and done.err.count("\n") == 1
    for part in (getpass.getuser(), socket.gethostname(), str(holder.pid), "since", "sh"):
        assert part in done.err, part


def test_another_name_is_not_busy(every_store):  # x and x:q, x.lock: names do not collide with what klock keeps beside
    every_store.hold("x")
    for name in ("y", "x:q", "x:queue", "x.lock", "{x}:queue", "x/y", "X"):
        done = every_store.run("run", "-n", name, "--", "true")
        assert done.status == 0, (name, done.err)


@pytest.mark.parametrize("name", ["a/b.c:d-e_f@g+h=i", "größe-日本", "n" * 200, "%41", "...", "-"])
def test_names_people_use(store, name):
    holder = store.start("run", "--", name, "cat", stdin=-1)
    wait_until(lambda: not store.is_free(name) if name != "-" else holder.command, what="held")
    assert store.run("run", "-n", "--", name, "true").status == 75
    holder.popen.stdin.close()
    assert holder.wait() == 0, holder.err


def test_wait_limit_is_exact(store):
    store.hold("n")
    done = store.run("run", "-w", "500ms", "n", "--", "true")
    assert done.status == 75
    assert 0.49 <= done.seconds <= 0.6 + 0.3 * SLOW


def test_wait_0_does_not_wait(store):
    store.hold("n")
    done = store.run("run", "-w", "0", "n", "--", "true")
    assert done.status == 75 and done.seconds < 0.5 * SLOW


def test_waits_for_ever_without_a_limit(store):
    holder = store.hold("n")
    waiter = store.start("run", "n", "--", "echo", "mine")
    wait_until(lambda: store.waiters("n") == 1)
    holder.send(signal.SIGTERM)
    assert (waiter.wait(), waiter.out, waiter.err) == (0, "mine\n", "")


@pytest.mark.parametrize("code", [0, 1, 200, 255])
def test_conflict_exit_code(store, code):  # C22
    store.hold("n")
    assert store.run("run", "-n", "-E", str(code), "n", "--", "true").status == code


def test_every_exit_code_comes_back(store):  # C19
    for code in range(256):
        assert store.run("run", "n", "--", "sh", "-c", f"exit {code}").status == code


@pytest.mark.parametrize("name", ["KILL", "SEGV", "TERM", "INT", "QUIT", "HUP", "USR1", "PIPE"])
def test_death_by_signal_is_128_plus_it(store, name):  # C20
    number = getattr(signal, f"SIG{name}")
    done = store.run("run", "n", "--", "sh", "-c", f"ulimit -c 0; kill -{name} $$")
    assert done.status == 128 + number
    if name in ("TERM", "INT", "QUIT"):
        assert done.died_of == number, "a shell must see the death by signal"
    assert store.is_free("n")


def test_missing_command_is_127_and_touches_no_server(on_redis, redis):  # C21
    with redis.monitor() as monitor:
        done = on_redis.run("run", "n", "--", "no-such-program")
        assert monitor.settle(redis) == []
    assert done.status == 127 and "no-such-program" in done.err and done.err.count("\n") == 1


def test_command_that_cannot_run_is_126_and_touches_no_server(on_redis, redis, tmp_path):
    (tmp_path / "data").write_text("no program\n")
    with redis.monitor() as monitor:
        for path in (tmp_path / "data", tmp_path):
            done = on_redis.run("run", "n", "--", str(path))
            assert done.status == 126 and str(path) in done.err, path
        assert monitor.settle(redis) == []


def test_missing_command_touches_no_directory(make_klock, tmp_path):
    klock = make_klock(f"local:{tmp_path}/not-yet")
    assert klock.run("run", "n", "--", "no-such-program").status == 127
    assert not (tmp_path / "not-yet").exists()


@pytest.fixture
def broken_script(tmp_path):
    """Looks as if it could be run."""
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    return str(script)


def test_broken_interpreter_is_127_or_126_and_frees_the_lock(store, broken_script):
    done = store.run("run", "n", "--", broken_script)
    assert done.status in (126, 127) and done.err.startswith("klock: ")
    assert store.is_free("n")


def test_command_that_could_not_be_started_is_told_as_it_was(store, broken_script, tmp_path):
    """Found out under the lock: nothing ran that --min-hold is for."""
    path = tmp_path / "outcome.json"
    done = store.run("run", "-v", "--min-hold", "1h", "--outcome-file", str(path), "n", "--", broken_script)
    report = json.loads(path.read_text())
    assert done.status == report["exit_status"] == 127 and store.is_free("n")
    assert (report["acquired"], report["outcome"], report["command"]) == (True, "error", None)
    assert report["reason"] == f"cannot run {broken_script}: No such file or directory"
    said = [line for line in done.err.splitlines() if line.startswith("klock: n: ")]
    assert len(said) == 3 and "acquired" in said[0] and "released" in said[1] and report["reason"] in said[2], done.err
    assert "the lock is released" in said[2]


def test_command_that_was_not_found_is_told_as_it_was(store, tmp_path):
    path = tmp_path / "outcome.json"
    done = store.run("run", "--outcome-file", str(path), "n", "--", "no-such-program")
    report = json.loads(path.read_text())
    assert done.status == report["exit_status"] == 127
    assert (report["acquired"], report["outcome"], report["command"], report["fence"]) == (False, "error", None, None)
    assert report["reason"] == "cannot run no-such-program: No such file or directory"


def test_hold_of_a_run_around_it_is_not_called_released(store, broken_script):
    done = store.run("run", "n", "--", "sh", "-c", f'"{store.path}" run -v n -- {broken_script}')
    assert done.status == 127 and "cannot run" in done.err and "released" not in done.err, done.err


def test_script_without_interpreter_line_runs_in_sh(store, tmp_path):
    script = tmp_path / "script"
    script.write_text("echo script $1\n")
    script.chmod(0o755)
    assert store.run("run", "n", "--", str(script), "arg").out == "script arg\n"


def test_arguments_arrive_byte_for_byte(store, child):  # C53
    words = [b"", b" ", b"a  b", b"'\"\\", b"\n", b"\xff\xfe", b"-v", b"--help", b"-E", b"--", b"$HOME", b"*", b"-c", b"%s"]
    done = store.run(b"run", b"n", b"--", child.encode(), b"argv", *words)
    assert done.out.encode(errors="surrogateescape").split(b"\0")[:-1] == words


def test_own_options_are_taken_until_the_command_begins(store):
    assert store.run("run", "n", "-n", "-w", "0", "echo", "-n", "x").out == "x"
    assert store.run("run", "--", "n", "echo", "-v").out == "-v\n"
    assert store.run("run", "-v", "n", "--", "echo", "--").out == "--\n"


@pytest.mark.parametrize("shell, expected", [("/bin/bash", "bash"), (None, "sh"), ("", "sh")])
def test_shell_command_uses_SHELL_or_sh(store, shell, expected):  # C56
    store.env.pop("SHELL", None)
    env = {} if shell is None else {"SHELL": shell}
    done = store.run("run", "n", "-c", 'test -n "$BASH_VERSION" && echo bash || echo sh; exit 3', env=env)
    assert (done.status, done.out) == (3, expected + "\n")


def test_stdin_and_stdout_belong_to_the_command(store):
    data = os.urandom(3_000_000)
    started = store.start("run", "n", "--", "sh", "-c", "cat; echo oops >&2", stdin=-1, stdout=-1)
    out, _ = started.popen.communicate(data, timeout=20 * SLOW)
    assert out == data and started.err == "oops\n" and started.status == 0


def test_output_is_visible_within_100_ms(store, child):  # C58
    started = store.start("run", "n", "--", child, "stamp", stdout=-1)
    written = int(started.popen.stdout.readline())
    assert time.monotonic_ns() - written < 100e6 * SLOW


def test_command_inherits_no_descriptor(every_store, child):  # C46
    done = every_store.run("run", "n", "--", child, "fds")
    assert [line.split()[0] for line in done.out.splitlines()] == ["0", "1", "2"], done.out


def test_closed_standard_streams_are_not_replaced_by_ours(every_store, child):
    done = every_store.start_program("sh", "-c", f'exec "{every_store.path}" run n -- "{child}" fds 0<&- 2>&-')
    assert done.wait() == 0
    assert not re.search(r"socket|eventfd|\.lock|signalfd|pipe", done.out), done.out


def test_daemon_of_the_command_keeps_no_lock(store):  # C46
    done = store.run("run", "n", "--", "sh", "-c", "sleep 1000 </dev/null >/dev/null 2>&1 & echo $!")
    daemon = int(done.out)
    assert done.status == 0 and alive(daemon), "what the command left in the background is left alone"
    assert store.run("run", "-n", "n", "--", "true").status == 0
    os.kill(daemon, signal.SIGKILL)


def test_command_learns_name_token_fence_and_mode(every_store):
    done = every_store.run("run", "n", "--", "sh", "-c", "echo $KLOCK_NAME $KLOCK_TOKEN $KLOCK_FENCE $KLOCK_MODE")
    name, token, fence, mode = done.out.split()
    assert (name, mode) == ("n", "exclusive") and re.fullmatch("[0-9a-f]{32}", token) and int(fence) > 0


def test_token_is_the_value_of_the_key(on_redis, client):
    holder = on_redis.hold("n", command='echo "$KLOCK_TOKEN"; exec sleep 1000')
    wait_until(lambda: len(holder.out.split()) == 2)
    assert client.get("klock:n") == holder.out.split()[1]


def test_outcome_file_tells_a_busy_75_from_the_commands_75(store, tmp_path):  # C22
    path = tmp_path / "outcome.json"
    assert store.run("run", "--outcome-file", str(path), "n", "--", "sh", "-c", "exit 75").status == 75
    report = json.loads(path.read_text())
    assert (report["name"], report["acquired"], report["outcome"], report["exit_status"]) == ("n", True, "completed", 75)
    assert report["command"] == {"exit": 75} and report["fence"] > 0 and report["held_ms"] >= 0
    store.hold("n")
    assert store.run("run", "-w", "0.3", "--outcome-file", str(path), "n", "--", "true").status == 75
    report = json.loads(path.read_text())
    assert (report["acquired"], report["outcome"], report["command"]) == (False, "busy", None)
    assert report["waited_ms"] >= 290
    assert os.listdir(tmp_path).count("outcome.json") == 1


def test_outcome_file_tells_the_signal(store, tmp_path):
    path = tmp_path / "outcome.json"
    store.run("run", "--outcome-file", str(path), "n", "--", "sh", "-c", "kill -KILL $$")
    assert json.loads(path.read_text())["command"] == {"signal": "KILL"}


def test_a_conflict_that_is_all_right_is_not_told(store):  # cron mails any output
    store.hold("n")
    done = store.run("run", "-n", "-E", "0", "n", "--", "true")
    assert (done.status, done.out, done.err) == (0, "", "")
    assert "held by" in store.run("run", "-v", "-n", "-E", "0", "n", "--", "true").err


def test_quiet_says_nothing_when_busy(store):
    store.hold("n")
    done = store.run("run", "-q", "-n", "n", "--", "true")
    assert (done.status, done.err) == (75, "")


def test_verbose_tells_what_happens_on_stderr(store):
    done = store.run("run", "-v", "n", "--", "echo", "out")
    assert done.out == "out\n" and done.err and all(line.startswith("klock: ") for line in done.err.splitlines())


def test_message_reaches_those_who_are_refused(store):
    store.hold("n", "-m", "rebuilding the index")
    assert "rebuilding the index" in store.run("run", "-n", "n", "--", "true").err


def test_unwritable_stderr_ends_no_job(store):
    with open("/dev/full", "wb") as full:
        assert store.run("run", "-v", "n", "--", "sh", "-c", "exit 4", stderr=full).status == 4
    reader, writer = os.pipe()
    os.close(reader)
    done = store.run("run", "-v", "n", "--", "sh", "-c", "exit 5", stderr=os.fdopen(writer, "wb"))
    assert done.status == 5


def test_help_and_version_go_to_stdout(on_local):
    for words in (["--version"], ["--help"], ["run", "--help"], ["status", "--help"]):
        done = on_local.run(*words)
        assert done.status == 0 and done.out and done.err == "", words
