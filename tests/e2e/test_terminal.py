# SPDX-License-Identifier: MIT
"""On a terminal klock behaves as if the command had been started without it."""
import os
import signal
import time

import pexpect
import pytest
from support.proc import SLOW, alive, children, close_terminal, command_of, group, guard_of, marked, process, wait_until


@pytest.fixture
def terminal():
    """terminal(klock, program, *words) starts a program on a terminal of its own."""
    opened = []

    def start(klock, program, *words):
        opened.append(pexpect.spawn(program, list(words), env={**klock.env, "TERM": "dumb"}, cwd=klock.directory,
                                    timeout=10 * SLOW, encoding="utf-8", echo=False))
        return opened[-1]

    yield start
    for tty in opened:
        close_terminal(tty)


@pytest.fixture
def shell(terminal):
    """shell(klock) is an interactive bash, ready for a line."""

    def start(klock):
        tty = terminal(klock, "bash", "--norc", "--noprofile", "--noediting", "-i")
        tty.sendline("PS1='ready''> '; stty -echo; cd .")
        tty.expect_exact("ready> ")
        return tty

    return start


def klock_under(pid):
    return wait_until(lambda: [p.pid for p in children(pid) if p.comm.startswith("klock")], what="klock runs")[0]


def held(store, name):
    wait_until(lambda: store.state(name)["state"] == "held", what=f"{name} held")


def test_ctrl_c_arrives_exactly_once_and_is_no_stop(store, terminal, signal_log):  # C15
    tty = terminal(store, store.path, "run", "--ttl", "1s", "n", "--", *signal_log.command)
    command = signal_log.wait_ready()
    tty.sendintr()
    signal_log.wait_for(signal.SIGINT)
    os.kill(tty.pid, signal.SIGUSR1)  # klock handles it after whatever it does about the SIGINT
    signal_log.wait_for(signal.SIGUSR1)
    time.sleep(0.5)  # longer than kill-after (0.33 s): a stop would have killed it
    assert alive(command) and signal_log.count(signal.SIGINT) == 1
    assert signal_log.count(signal.SIGTERM) == 0 and not store.is_free("n")
    signal_log.end()
    tty.expect(pexpect.EOF)
    tty.close()
    assert tty.exitstatus == 0


def test_ctrl_c_ends_a_command_and_klock_dies_of_it(store, terminal):
    tty = terminal(store, store.path, "run", "n", "--", "sleep", "1000")
    held(store, "n")
    wait_until(lambda: command_of(tty.pid))
    tty.sendintr()
    tty.expect(pexpect.EOF)
    tty.close()
    assert tty.signalstatus == signal.SIGINT and store.is_free("n")


def test_signal_by_kill_reaches_a_foreground_command_once(store, terminal, signal_log):
    tty = terminal(store, store.path, "run", "n", "--", *signal_log.command)
    signal_log.wait_ready()
    os.kill(tty.pid, signal.SIGTERM)
    signal_log.wait_for(signal.SIGTERM)
    os.kill(tty.pid, signal.SIGUSR1)
    signal_log.wait_for(signal.SIGUSR1)
    assert signal_log.count(signal.SIGTERM) == 1
    signal_log.end()
    tty.expect(pexpect.EOF)


def test_script_reads_the_terminal_through_klock(store, terminal):  # C14
    script = f"{store.path} run n -- cat; echo after $?"
    tty = terminal(store, "sh", "-c", script)
    held(store, "n")
    tty.sendline("hello")
    tty.expect_exact("hello")
    tty.sendeof()
    tty.expect_exact("after 0")


def test_stop_spares_the_calling_script(store, terminal):  # the script is in the command's group
    tty = terminal(store, "sh", "-c", f"{store.path} run n -- sleep 1000; echo status $?")
    held(store, "n")
    assert process(klock_under(tty.pid)).pgrp == tty.pid, "klock stays in its caller's group"  # C17
    assert store.run("force-release", "--yes", "--reason", "test", "n").status == 0
    tty.expect_exact("status 79")


@pytest.mark.parametrize("how", ["forced", "klock killed", "signal", "max-hold"])
def test_command_with_a_group_of_its_own_is_stopped_too(store, terminal, how):
    """setsid and interactive shells leave the group that they were started in."""
    limit = ["--max-hold", "1s"] if how == "max-hold" else []
    tty = terminal(store, "sh", "-c", " ".join([store.path, "run", "--ttl", "3s", *limit, "n", "--",
                                                "setsid", "sh", "-c", "'sleep 1001 & sleep 1002'"]) + "; echo status $?")
    held(store, "n")

    def sleepers():
        return [p for p in marked(store.mark) if p.comm == "sleep"]

    wait_until(lambda: len(sleepers()) == 2)
    klock = klock_under(tty.pid)
    if how == "forced":
        assert store.run("force-release", "--yes", "n").status == 0
        assert not sleepers()
    elif how == "klock killed":
        os.kill(klock, signal.SIGKILL)
    elif how == "signal":
        os.kill(klock, signal.SIGTERM)
    wait_until(lambda: store.is_free("n"))
    assert not sleepers()
    tty.expect_exact({"forced": "status 79", "klock killed": "status 137", "signal": "status 143",
                      "max-hold": "status 124"}[how])


def test_stop_ends_orphans_in_the_callers_group_too(store, terminal):
    inner = "sh -c '(sh -c \"sleep 1001 & sleep 1002\" &) ; sleep 1003'"
    tty = terminal(store, "sh", "-c", f"{store.path} run n -- {inner}; echo status $?")
    held(store, "n")
    wait_until(lambda: len([p for p in group(tty.pid) if p.comm == "sleep"]) == 3)
    assert store.run("force-release", "--yes", "n").status == 0
    assert not [p for p in marked(store.mark) if p.comm == "sleep"]
    tty.expect_exact("status 79")


def test_ctrl_z_suspends_both_and_fg_resumes_them(store, shell):  # C14
    tty = shell(store)
    tty.sendline(f"{store.path} run n -- sh -c 'echo started; sleep 1000'")
    tty.expect_exact("started")
    klock = klock_under(tty.pid)
    command = command_of(klock)
    tty.send("\x1a")
    tty.expect_exact("ready> ")
    wait_until(lambda: process(klock).state == "T" and process(command).state == "T", what="both stopped")
    assert process(guard_of(klock)).state != "T", "the guard does not sleep"
    assert not store.is_free("n")
    tty.sendline("fg")
    wait_until(lambda: process(klock).state == "S" and process(command).state == "S", what="both go on")
    tty.sendintr()
    tty.expect_exact("ready> ")
    tty.sendline("echo status $?")
    tty.expect_exact("status 130")


def test_background_command_reads_the_terminal_once_in_front(store, shell):
    tty = shell(store)
    tty.sendline(f"{store.path} run n -- cat &")
    tty.expect_exact("ready> ")
    held(store, "n")
    klock = klock_under(tty.pid)
    wait_until(lambda: process(klock).state == "T", what="the job is stopped, as a reader in the background is")
    tty.sendline("fg")
    tty.expect_exact("run n -- cat")
    wait_until(lambda: process(klock).state == "S" and process(command_of(klock)).state == "S", what="both go on")
    tty.sendline("hello")
    tty.expect_exact("hello")
    tty.sendeof()
    tty.expect_exact("ready> ")
    tty.sendline("echo status $?")
    tty.expect_exact("status 0")


def test_ctrl_c_reaches_a_command_that_was_brought_to_the_front(store, shell):
    tty = shell(store)
    tty.sendline(f"{store.path} run n -- sh -c 'sleep 1000; echo no' &")
    tty.expect_exact("ready> ")
    held(store, "n")
    tty.sendline("fg")
    tty.expect_exact("run n -- sh")
    time.sleep(0.2)  # bash hands the terminal over
    tty.sendintr()
    tty.expect_exact("ready> ")
    wait_until(lambda: store.is_free("n"))


def test_waiting_line_appears_after_half_a_second(store, terminal):
    holder = store.hold("n", "-m", "the reason")
    before = time.monotonic()
    tty = terminal(store, store.path, "run", "n", "--", "echo", "mine")
    tty.expect_exact(str(holder.pid))
    assert 0.4 < time.monotonic() - before < 1 + SLOW
    holder.send(signal.SIGTERM)
    tty.expect_exact("mine")
    tty.expect(pexpect.EOF)
    tty.close()
    assert tty.exitstatus == 0


def test_short_wait_shows_nothing(store, terminal):
    holder = store.hold("n", command="sleep 0.2")
    tty = terminal(store, store.path, "run", "n", "--", "echo", "mine")
    tty.expect(pexpect.EOF)
    assert tty.before == "mine\r\n" and holder.wait() == 0


def test_ctrl_c_while_waiting(store, terminal):
    store.hold("n")
    tty = terminal(store, store.path, "run", "n", "--", "true")
    wait_until(lambda: store.waiters("n") == 1)
    tty.sendintr()
    tty.expect(pexpect.EOF)
    tty.close()
    assert tty.signalstatus == signal.SIGINT and store.waiters("n") == 0


def test_terminal_that_goes_away_ends_the_command_and_frees_the_lock(store, terminal):
    tty = terminal(store, store.path, "run", "n", "--", "sleep", "1000")
    held(store, "n")
    tty.ptyproc.fileobj.close()  # the hang-up; klock, the leader of the session, gets the HUP and nobody else does
    wait_until(lambda: store.is_free("n"), what="the lock is free")
    wait_until(lambda: not [p for p in marked(store.mark) if p.comm == "sleep"])
