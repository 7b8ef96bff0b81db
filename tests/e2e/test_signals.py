# SPDX-License-Identifier: MIT
"""klock is transparent to signals, and nothing is released while a stopped command lives."""
import os
import signal
import time

import pytest
from support.proc import SLOW, alive, descendants, group, holds_for, process, status_field, wait_until

ENDING = ["HUP", "INT", "QUIT", "TERM"]
STUBBORN_CHILD = "(trap '' TERM HUP INT QUIT; echo $(exec sh -c 'echo $PPID'); sleep 1000) & "


def number_of(name):
    return getattr(signal, name if name.startswith("SIG") else f"SIG{name}")


def test_term_reaches_the_command_and_the_lock_is_free_after_it(every_store):  # C2, C7
    holder = every_store.hold("n")
    command = holder.command
    holder.send(signal.SIGTERM)
    assert holder.wait() == 143 and holder.died_of == signal.SIGTERM
    assert not alive(command) and every_store.is_free("n") and holder.err == ""
    assert every_store.run("run", "-n", "n", "--", "true").status == 0


@pytest.mark.parametrize("name", [*ENDING, "USR1", "USR2", "WINCH", "CONT", "ALRM", "IO", "RTMIN"])
def test_each_signal_arrives_exactly_once(store, signal_log, name):  # C3
    holder = store.start("run", "n", "--", *signal_log.command)
    command = signal_log.wait_ready()
    holder.send(number_of(name))
    signal_log.wait_for(number_of(name))
    assert command in [p.pid for p in descendants(holder.pid)], "klock still looks after it"
    if name != "USR2":  # what is sent later arrives later: a second copy would have come by now
        holder.send(signal.SIGUSR2)
        signal_log.wait_for(signal.SIGUSR2)
    assert signal_log.count(number_of(name)) == 1 and not store.is_free("n")
    signal_log.end()
    assert holder.wait() == 0


def test_real_time_signals_are_all_delivered(store, signal_log):
    holder = store.start("run", "n", "--", *signal_log.command)
    signal_log.wait_ready()
    for _ in range(5):
        holder.send(signal.SIGRTMIN + 3)
    wait_until(lambda: signal_log.count(signal.SIGRTMIN + 3) == 5, what="five signals")
    signal_log.end()
    assert holder.wait() == 0 and signal_log.count(signal.SIGRTMIN + 3) == 5


@pytest.mark.parametrize("name", ENDING)
def test_interrupted_while_waiting_leaves_at_once_and_without_a_trace(every_store, name):  # C4, R35
    every_store.hold("n")
    waiter = every_store.queue("n", 1)[0]
    before = time.monotonic()
    waiter.send(number_of(name))
    assert waiter.wait() == 128 + number_of(name)
    assert time.monotonic() - before < 0.2 * SLOW
    assert waiter.out == "" and every_store.waiters("n") == 0


def test_signals_that_end_nothing_do_not_end_the_waiting(store):
    holder = store.hold("n")
    waiter = store.queue("n", 1, "echo", "mine")[0]
    for name in ("WINCH", "CONT", "URG"):
        waiter.send(number_of(name))
    assert holds_for(lambda: waiter.status is None, 0.2)
    holder.send(signal.SIGTERM)
    assert waiter.wait() == 0 and waiter.out == "mine\n"


def test_lock_is_kept_until_the_command_is_dead(store):  # C6: the command dies first, then the key
    holder = store.hold("n", command=f"trap 'sleep {0.7 * SLOW}; exit 0' TERM; sleep 1000 & wait")
    command = holder.command
    holder.send(signal.SIGTERM)
    looks = 0
    while True:
        free = store.is_free("n")
        if free:
            break
        looks += 1
    assert not alive(command) and looks > 3
    assert holder.wait() == 0


def test_waits_however_long_the_command_takes_to_shut_down(store):
    holder = store.hold("n", "--ttl", "2s", command="trap 'sleep 4; exit 7' TERM; sleep 1000 & wait")
    holder.send(signal.SIGTERM)
    assert holder.wait() == 7, holder.err


def test_interrupt_ends_a_shell_and_its_sleep(store):  # C10
    holder = store.start("run", "n", "-c", "sleep 60; echo x")
    holder.command
    wait_until(lambda: store.state("n")["state"] == "held")
    before = time.monotonic()
    holder.send(signal.SIGINT)
    assert holder.wait() == 130 and time.monotonic() - before < 1 * SLOW and holder.out == ""


def test_explicit_kill_after_bounds_a_forwarded_term_for_the_whole_group(store):  # C12
    holder = store.hold("n", "-k", "300ms", command=STUBBORN_CHILD + "trap '' TERM; while :; do sleep 1; done")
    command = holder.command
    holder.send(signal.SIGTERM)
    before = time.monotonic()
    assert holder.wait() == 137
    assert time.monotonic() - before < 1 + SLOW and not group(command)
    assert store.is_free("n")


def test_leftovers_of_a_forwarded_term_die_before_the_release(store):  # R63
    holder = store.hold("n", "--ttl", "1500ms", command=STUBBORN_CHILD + "trap 'exit 3' TERM; wait")
    command = holder.command
    holder.send(signal.SIGTERM)
    wait_until(lambda: not alive(command), what="the command ended")
    while group(command):
        assert not store.is_free("n") or not group(command), "released while a process of the group lives"
    assert holder.wait() == 3 and store.is_free("n")


def test_kill_after_0_kills_at_once(store):
    holder = store.hold("n", "-k", "0", command="trap '' TERM; while :; do sleep 1; done")
    holder.send(signal.SIGTERM)
    before = time.monotonic()
    assert holder.wait() == 137 and time.monotonic() - before < 0.5 * SLOW


def test_ignored_signals_stay_ignored(store):  # nohup
    ignore = lambda: (signal.signal(signal.SIGHUP, signal.SIG_IGN), signal.signal(signal.SIGQUIT, signal.SIG_IGN))
    holder = store.hold("n", preexec_fn=ignore)
    command = holder.command
    ignored = int(status_field(command, "SigIgn"), 16)
    assert ignored & (1 << (signal.SIGHUP - 1)) and ignored & (1 << (signal.SIGQUIT - 1))
    holder.send(signal.SIGHUP)
    holder.send(signal.SIGQUIT)
    assert holds_for(lambda: alive(command) and holder.status is None, 0.3)


def test_command_gets_the_signal_mask_and_actions_klock_was_started_with(store):
    blocked = lambda: signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGUSR2})
    bare = store.start_program("grep", "^Sig[BIC]", "/proc/self/status", preexec_fn=blocked)
    bare.wait()
    under = store.run("run", "n", "--", "grep", "^Sig[BIC]", "/proc/self/status", preexec_fn=blocked)
    assert under.out == bare.out


def test_works_when_sigchld_is_ignored(store):
    ignore = lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    assert store.run("run", "n", "--", "sh", "-c", "exit 6", preexec_fn=ignore).status == 6


def test_signal_option_is_used_for_a_stop(store, signal_log):
    holder = store.start("run", "--signal", "USR1", "--max-hold", "300ms", "n", "--", *signal_log.command)
    signal_log.wait_ready()
    signal_log.wait_for(signal.SIGUSR1)
    assert signal_log.count(signal.SIGTERM) == 0
    signal_log.end()
    assert holder.wait() == 124


def test_stop_reaches_a_suspended_command(store):
    suspended = "trap 'echo bye; exit 0' TERM; kill -STOP $$; while :; do sleep 0.05; done"
    holder = store.hold("n", "--max-hold", "400ms", command=suspended)
    assert holder.wait() == 124 and "bye" in holder.out


def test_klock_stays_in_its_callers_group_and_the_command_gets_its_own(store):
    holder = store.hold("n", preexec_fn=os.setsid)
    assert process(holder.pid).pgrp == holder.pid
    assert process(holder.command).pgrp == holder.command
