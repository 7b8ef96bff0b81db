# SPDX-License-Identifier: MIT
"""klock force-release of readers, slots, shells' holds and what no process keeps: one of them or all, told and handed on."""
import getpass
import os
import re
import signal
import socket

import pexpect
import pytest
from support import shells
from support.proc import SLOW, wait_until, wipe_out

SEVERAL = pytest.mark.parametrize("mode", [("-s",), ("--slots", "3")])
EACH_WAY = pytest.mark.parametrize("how", [(), ("--now",)])
TOLD = (getpass.getuser(), socket.gethostname(), "it hangs")


def force(store, *words):
    return store.run("force-release", "--yes", *words, "n", timeout=20)


def ids(store):
    """{pid: id} of the holders."""
    return {holder["pid"]: holder["id"] for holder in store.state("n")["holders"]}


@SEVERAL
@EACH_WAY
def test_all_of_several_end_and_the_next_one_starts(store, mode, how):
    holders = [store.hold("n", *mode, "--ttl", "60s") for _ in range(3)]
    (writer,) = store.queue("n", 1, "echo", "written")
    shown = ids(store)
    done = force(store, *how, "--reason", "it hangs")
    assert done.status == 0, done.err
    for holder in holders:
        assert done.err.count(f"pid {holder.pid} ") == 1 and done.err.count(shown[holder.pid]) == 2, done.err
        assert holder.wait() == 79
        assert all(part in holder.err for part in TOLD), holder.err
    assert writer.wait(3) == 0 and writer.out == "written\n"


@SEVERAL
@EACH_WAY
def test_one_of_several_ends_and_the_others_stay(store, mode, how):
    holders = [store.hold("n", *mode, "--ttl", "60s") for _ in range(3)]
    shown = ids(store)
    done = force(store, *how, "--id", shown[holders[1].pid], "--reason", "it hangs")
    assert done.status == 0, done.err
    assert holders[1].wait() == 79 and all(part in holders[1].err for part in TOLD)
    wait_until(lambda: set(ids(store)) == {holders[0].pid, holders[2].pid}, what="the others are left")
    assert holders[0].status is None and holders[2].status is None


@EACH_WAY
def test_slot_that_was_freed_goes_to_who_waits_for_one(store, how):
    holders = [store.hold("n", "--slots", "2", "--ttl", "60s") for _ in range(2)]
    (waiter,) = store.queue("n", 1, "echo", "mine", options=("--slots", "2"))
    assert force(store, *how, "--id", ids(store)[holders[0].pid]).status == 0
    assert waiter.wait(3) == 0 and waiter.out == "mine\n" and holders[1].status is None


def test_all_are_asked_before_anyone_is_waited_for(store):
    frozen, second, third = (store.hold("n", "-s", "--ttl", "60s") for _ in range(3))
    for one in (frozen, third):
        os.kill(one.pid, signal.SIGSTOP)
    shown = ids(store)
    done = force(store, "-w", "1s")
    assert done.status == 75 and second.wait() == 79
    for one in (frozen, third):
        assert f"id {shown[one.pid]}: its holder has not let go in time" in done.err, done.err
        os.kill(one.pid, signal.SIGCONT)
        assert one.wait() == 79


def test_question_tells_how_many(store):
    holders = [store.hold("n", "-s") for _ in range(2)]
    tty = pexpect.spawn(store.path, ["force-release", "n"], env=store.env, timeout=10 * SLOW, encoding="utf-8")
    tty.expect_exact("ask these 2 holders to stop their commands? [y/N]")
    tty.sendline("n")
    tty.expect_exact("nothing was done")
    tty.expect(pexpect.EOF)
    tty.close()
    assert tty.exitstatus == 1 and all(holder.status is None for holder in holders)


QUESTIONS = {"asked": ([], "ask the holder to stop its command?"),
             "removed": (["--now"], "remove this hold at once? its command may overlap with the next one")}


@pytest.mark.parametrize("how", QUESTIONS)
def test_question_tells_what_will_be_done(store, how):
    words, question = QUESTIONS[how]
    store.hold("n")
    assert answer(store, "n", *words, question=question) == 1
    assert not store.is_free("n")


def test_question_about_a_hold_without_a_process(store):
    assert store.run("acquire", "--for", "1h", "n").status == 0
    assert answer(store, "n", question="release this hold?") == 1
    assert answer(store, "y", "--now", question="remove this hold at once? [y/N]") == 0
    assert store.is_free("n")


def test_nothing_is_asked_where_nothing_can_be_done(store):
    assert store.run("run", "--min-hold", "1h", "n", "--", "true").status == 0
    assert answer(store, question="--now frees it at once") == 1


def answer(store, reply="", *words, question):
    """Answers the question on a terminal; the exit status."""
    tty = pexpect.spawn(store.path, ["force-release", *words, "n"], env=store.env, timeout=10 * SLOW, encoding="utf-8")
    tty.expect_exact(question)
    if reply:
        tty.sendline(reply)
    tty.expect(pexpect.EOF)
    assert ("[y/N]" in question + tty.before) == bool(reply)
    tty.close()
    return tty.exitstatus


def test_one_that_does_not_let_go_is_no_reason_to_leave_the_others(store):
    holders = [store.hold("n", "-s", "--ttl", "60s") for _ in range(3)]
    os.kill(holders[1].pid, signal.SIGSTOP)
    done = force(store, "--now", "--store-timeout", "500ms")
    assert holders[0].wait() == 79 and holders[2].wait() == 79
    if store.url.startswith("local:"):
        # The kernel's lock on a share can't be taken away.
        assert done.status == 71 and "does not let go" in done.err, done.err
    else:
        assert done.status == 0 and store.is_free("n"), done.err
    os.kill(holders[1].pid, signal.SIGCONT)
    assert holders[1].wait() == 79


@pytest.mark.parametrize("words", [["--for", "1h"], ["--no-keeper", "--ttl", "1h"], ["-s", "--for", "1h"],
                                   ["--slots", "2", "--no-keeper", "--ttl", "1h"]])
@EACH_WAY
def test_hold_without_a_process_is_released_at_once(store, words, how):
    assert store.run("acquire", *words, "-m", "new disks", "n").status == 0
    (waiter,) = store.queue("n", 1, "echo", "mine")
    stale = force(store, "--stale")
    assert stale.status == 1 and "not proven dead" in stale.err and "it is released" in stale.err
    done = force(store, *how)
    assert done.status == 0 and "new disks" in done.err, done.err
    assert waiter.wait(3) == 0 and waiter.out == "mine\n"


@pytest.mark.parametrize("mode", [[], ["-s"]])
def test_run_that_has_joined_a_hold_without_a_process_is_dead_before_the_next_one(on_redis, mode, tmp_path):
    token = re.search("[0-9a-f]{32}", on_redis.run("acquire", *mode, "--for", "1h", "n").out)[0]
    command = f"trap 'sleep 0.5; echo over > {tmp_path}/end; exit 0' TERM; echo up; sleep 1000 & wait"
    joined = on_redis.start("run", *mode, "n", "--", "sh", "-c", command, env={"KLOCK_TOKEN": token, "KLOCK_HELD": token})
    wait_until(lambda: joined.out == "up\n", what="it has joined")
    (waiter,) = on_redis.queue("n", 1, "cat", f"{tmp_path}/end")
    done = force(on_redis)
    assert done.status == 0, done.err
    assert joined.wait() == 79
    assert waiter.wait(3) == 0 and waiter.out == "over\n"


def test_mark_of_several_that_are_gone_is_removed(on_redis, client):
    holder = on_redis.hold("n", "-s", "--ttl", "60s", "--on-lost", "warn")
    client.delete("{klock:n}:readers")
    assert on_redis.run("run", "-n", "n", "true").status == 75
    assert force(on_redis, "--now").status == 0
    assert on_redis.run("run", "-n", "n", "true").status == 0
    holder.send(signal.SIGTERM)
    holder.wait()


def test_cooldown_is_left_alone_without_now(store):
    assert store.run("run", "--min-hold", "1h", "n", "--", "true").status == 0
    (waiter,) = store.queue("n", 1, "echo", "mine")
    for how in ((), ("--stale",)):
        done = force(store, *how)
        assert done.status == 1 and "--now frees it at once" in done.err, done.err
    assert store.state("n")["state"] == "cooldown"
    assert force(store, "--now").status == 0
    assert waiter.wait(3) == 0 and waiter.out == "mine\n"


@SEVERAL
def test_cooldown_of_one_of_several(store, mode):
    runs = store.hold("n", *mode, "--ttl", "60s")
    assert store.run("run", *mode, "--min-hold", "1h", "n", "--", "true").status == 0
    assert sorted(holder["cooldown"] for holder in store.state("n")["holders"]) == [False, True]
    shown = store.run("status", "n").out
    assert shown.count("held by ") == 1 and shown.count("kept taken by --min-hold after ") == 1
    done = force(store)
    assert done.status == 1 and "--now frees it at once" in done.err and runs.wait() == 79
    assert store.state("n")["state"] == "cooldown"
    assert force(store, "--now").status == 0 and store.is_free("n")


@EACH_WAY
@pytest.mark.parametrize("words", ["n", "-s n", "--slots 2 n"])
def test_shell_is_told_by_whom_and_why(store, words, how):
    script = shells.hold(store, f"--ttl 60s {words}")
    assert force(store, *how, "--reason", "it\nhangs").status == 0
    assert script.wait() == 128 + signal.SIGTERM
    (line,) = [line for line in script.err.splitlines() if line.startswith("klock: n: ")]
    assert "released by force by" in line and "it\\x0Ahangs" in line and "SIGTERM" in line
    assert all(part in line for part in TOLD[:2])


def test_quiet_shell_is_not_told(store):
    script = shells.hold(store, "-q n")
    assert force(store).status == 0
    assert script.wait() == 128 + signal.SIGTERM and "klock" not in script.err


@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full"])
def test_shell_that_can_not_be_told_is_stopped_all_the_same(store, stderr):
    script = shells.start(store, f"exec {stderr}; " + shells.HOLD.format(words="n"))
    wait_until(lambda: "up" in script.out, what="held")
    assert force(store).status == 0
    assert script.wait() == 128 + signal.SIGTERM


def test_shell_whose_messages_nobody_reads_is_stopped_all_the_same(store):
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    while True:
        try:
            os.write(writing, b"x" * 4096)
        except BlockingIOError:
            break
    os.set_blocking(writing, True)
    script = shells.start(store, shells.HOLD.format(words="n"), stderr=os.fdopen(writing, "wb"))
    wait_until(lambda: "up" in script.out, what="held")
    assert force(store).status == 0
    assert script.wait() == 128 + signal.SIGTERM
    os.close(reading)


def test_stale_removes_the_dead_of_several(on_redis):
    dead, alive = (on_redis.hold("n", "-s", "--ttl", "60s") for _ in range(2))
    shown = ids(on_redis)
    wipe_out(dead)
    done = force(on_redis, "--stale")
    assert done.status == 1, "one is left"
    assert f"id {shown[dead.pid]}: removed" in done.err and f"id {shown[alive.pid]}: not proven dead" in done.err
    assert set(ids(on_redis)) == {alive.pid} and alive.status is None
    assert force(on_redis, "--stale", "--id", shown[dead.pid]).status == 1
