# SPDX-License-Identifier: MIT
"""klock watch: a live screen of the locks, and the terminal as it was, however it ends."""
import contextlib
import os
import re
import signal
import termios

import pytest
from support.proc import children, holds_for, process, wait_until
from support.screens import ScreenTerminal

ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?7h\x1b[?25h\x1b[?1049l"
KEYS = "^q quit"

# Tells the status, and whether the terminal is as it was.
SCRIPT = """
trap : INT QUIT
before=$(stty -g)
"$@"
status=$?
test "$before" = "$(stty -g)" && echo "as before, status $status" || echo "changed, status $status"
"""


@pytest.fixture
def screen():
    """screen(klock, program, *words, size, env) -> ScreenTerminal"""
    opened = []

    def start(*words, **options):
        opened.append(ScreenTerminal(*words, **options))
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.close()


@pytest.fixture
def watch(screen):
    """watch(klock, *words) starts klock watch; returns once it shows something."""

    def start(klock, *words, **options):
        terminal = screen(klock, klock.path, "watch", "--interval", "100ms", *words, **options)
        terminal.wait_for("^..:..:..  ")
        return terminal

    return start


@pytest.fixture
def scripted_watch(screen):
    """Likewise, within SCRIPT."""

    def start(klock, *words):
        terminal = screen(klock, "sh", "-c", SCRIPT, "sh", klock.path, "watch", "--interval", "100ms", *words)
        terminal.wait_for("^..:..:..  ", KEYS)
        return terminal

    return start


def ended_with(terminal, status):
    """The screen was given back, and then the script went on."""
    terminal.wait_end()
    outcome = re.search(rb"(as before|changed), status (\d+)", terminal.raw)
    assert outcome, terminal.raw[-300:]
    assert outcome[0] == b"as before, status %d" % status
    assert LEAVE in terminal.raw[:outcome.start()]
    assert terminal.raw.rindex(LEAVE) > terminal.raw.rindex(ENTER)


def order(terminal):
    """The names in the order of the screen."""
    return [line.split()[0] for line in terminal.lines()[2:-1] if line]


def test_shows_holders_and_waiters_as_they_come_and_go(store, watch):
    terminal = watch(store, size=(24, 100))
    terminal.wait_for("  0 held, 0 waiting", "nothing to show$")
    holder = store.hold("nightly")
    terminal.wait_for("  1 held, 0 waiting", rf"^nightly  +exclusive  .*@.* pid {holder.pid} .* -$", "1-1 of 1")
    waiter, = store.queue("nightly", 1)
    terminal.wait_for("  1 held, 1 waiting", r"^nightly .* 1 \(\d+m?s\)$")
    holder.send(signal.SIGTERM)
    assert waiter.wait() == 0
    terminal.wait_for("  0 held, 0 waiting")
    terminal.wait_gone("nightly")
    terminal.send("q")
    assert terminal.wait_end() == 0


def test_holders_of_one_lock_follow_each_other(store, watch):
    holders = [store.hold("r", "--slots", "3") for _ in range(2)]
    store.hold("s")
    terminal = watch(store, size=(24, 100))
    text = terminal.wait_for("^s ", "2/3|slots")
    rows = text.splitlines()[2:5]
    assert rows[0].startswith("r ") and "slots 2/3" in rows[0] and rows[1].startswith("  ") and rows[2].startswith("s ")
    assert sorted(int(re.search(r"pid (\d+)", row)[1]) for row in rows[:2]) == sorted(h.pid for h in holders)


def test_message_where_there_is_room_and_nothing_that_a_terminal_obeys(store, watch):
    store.hold("n", "-m", "why\x1b[2Jnot")
    terminal = watch(store, size=(24, 160))
    terminal.wait_for(r"MESSAGE$", r"^n .*why\\x1B\[2Jnot$")


def test_pattern(store, watch):
    for name in ("a1", "b1"):
        store.hold(name)
    terminal = watch(store, "a*")
    terminal.wait_for("^a1 ", "1 held")
    assert order(terminal) == ["a1"]


def test_keys_sort_and_reverse(on_redis, watch):
    on_redis.hold("a", "--ttl", "100s")
    on_redis.hold("b", "--ttl", "300s")
    on_redis.hold("c", "--ttl", "200s")
    on_redis.queue("b", 1)
    terminal = watch(on_redis)
    for keys, named, expected in (("w", "waiters", "bac"), ("l", "time left", "acb"), ("r", "time left, reversed", "bca"),
                                  ("a", "age", "abc"), ("r", "age, reversed", "cba"), ("n", "name", "abc")):
        terminal.send(keys)
        terminal.wait_for(f"sort: {named}  ", "1-3 of 3")
        assert "".join(order(terminal)) == expected, named


def test_sort_option(on_redis, watch):
    on_redis.hold("a", "--ttl", "300s")
    on_redis.hold("b", "--ttl", "100s")
    terminal = watch(on_redis, "--sort", "left")
    terminal.wait_for("sort: time left", "1-2 of 2")
    assert order(terminal) == ["b", "a"]
    shown = on_redis.run("watch", "--once", "--sort", "left").out.splitlines()
    assert [line.split()[0] for line in shown[2:]] == ["b", "a"]


def test_filter_is_typed_kept_and_dropped(store, watch):
    for name in ("import:1", "export:1", "quick"):
        store.hold(name)
    terminal = watch(store)
    terminal.wait_for("1-3 of 3")
    terminal.send("/port:q")
    terminal.wait_for("^filter: port:q_")
    terminal.wait_gone("^import|^quick")
    terminal.send("\x7f")
    terminal.wait_for("^filter: port:_", "^import:1 ", "^export:1 ")
    terminal.send("\r")
    terminal.wait_for(KEYS, "/ filter: port:  ", "1-2 of 2")
    terminal.send("/")
    terminal.wait_for("^filter: port:_")
    terminal.send("\x1b")
    terminal.wait_for(KEYS, "1-3 of 3")
    terminal.send("\x1b")
    assert terminal.wait_end() == 0


def test_scrolls_when_there_are_more_rows_than_lines(on_redis, watch):
    on_redis.hold("m", "--slots", "30")
    for _ in range(11):
        on_redis.start("run", "--slots", "30", "m", "--", "sleep", "1000")
    terminal = watch(on_redis, size=(8, 80))
    terminal.wait_for("1-5 of 12")
    for keys, expected in (("j", "2-6"), ("\x1b[B", "3-7"), ("\x1b[6~", "8-12"), ("jj", "8-12"), ("k", "7-11"),
                           ("\x1b[5~", "2-6"), ("\x1b[A", "1-5"), ("\x1b[F", "8-12"), ("\x1b[H", "1-5")):
        terminal.send(keys)
        text = terminal.wait_for(f"{expected} of 12")
        assert text.splitlines()[2].startswith("m "), "the lock is named though its first holder is above"


def test_a_new_size_is_used_at_once(store, watch):
    store.hold("nightly")
    terminal = watch(store, "--interval", "1h")
    for height, width in ((10, 120), (30, 60), (24, 80)):
        terminal.resize(height, width)
        wait_until(lambda: re.search(KEYS, terminal.lines()[-1]), what=f"the keys on line {height}")
        terminal.wait_for("^nightly")
    for height, width in ((3, 20), (2, 9), (1, 1)):
        terminal.resize(height, width)
        wait_until(lambda: terminal.lines()[0], what="something")
    terminal.resize(24, 80)
    terminal.wait_for(KEYS, "^nightly")
    terminal.send("q")
    assert terminal.wait_end() == 0


@pytest.mark.parametrize("key, status", [("q", 0), ("\x1b", 0), ("\x03", 130), ("\x1c", 131)],
                         ids=["q", "Esc", "Ctrl-C", "Ctrl-backslash"])
def test_a_key_leaves_the_terminal_as_it_was(store, scripted_watch, key, status):
    terminal = scripted_watch(store)
    terminal.send(key)
    ended_with(terminal, status)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1],
                         ids=lambda number: number.name)
def test_a_signal_leaves_the_terminal_as_it_was(store, scripted_watch, number):
    terminal = scripted_watch(store)
    os.kill(terminal.klock_pid, number)
    ended_with(terminal, 128 + number)


def test_store_that_goes_and_comes_back(on_redis, redis, scripted_watch):
    on_redis.start("acquire", "--for", "1h", "n").wait()
    terminal = scripted_watch(on_redis)
    terminal.wait_for("1 held", "^n ")
    redis.kill()
    terminal.wait_for(r"not reachable since ..:..:..", "^n ", "1 held")
    terminal.send("r")
    terminal.wait_for("sort: name, reversed")
    redis.start()
    terminal.wait_gone("not reachable")
    terminal.wait_for("0 held")
    redis.kill()
    terminal.wait_for("not reachable")
    terminal.send("q")
    ended_with(terminal, 0)


def test_frozen_store_holds_no_key_up(on_redis, redis, scripted_watch):
    on_redis.start("acquire", "--for", "1h", "n").wait()
    terminal = scripted_watch(on_redis, "--store-timeout", "2s")
    terminal.wait_for("^n ")
    redis.freeze()
    terminal.wait_for("not reachable", "^n ")
    redis.thaw()
    terminal.wait_gone("not reachable")
    terminal.wait_for("1 held", "^n ")
    redis.freeze()
    terminal.send("w")
    terminal.wait_for("sort: waiters")
    terminal.send("q")
    ended_with(terminal, 0)


def has_socket(pid):
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # it has just been closed
            if os.readlink(f"/proc/{pid}/fd/{fd}").startswith("socket:"):
                return True
    return False


def test_a_look_that_lasts_ends_with_the_key(on_redis, redis, watch):
    terminal = watch(on_redis, "--store-timeout", "1h")
    redis.freeze()
    wait_until(lambda: holds_for(lambda: has_socket(terminal.pid), 0.3), what="a look at the store that lasts")
    terminal.send("w")
    terminal.wait_for("sort: waiters")
    wait_until(lambda: holds_for(lambda: has_socket(terminal.pid), 0.3), what="another one")
    terminal.send("q")
    assert terminal.wait_end() == 0


def test_store_that_refuses_ends_it(on_redis, client, scripted_watch):
    terminal = scripted_watch(on_redis)
    client.config_set("requirepass", "other")
    ended_with(terminal, 77)
    assert b"klock: watch: " in terminal.raw[terminal.raw.rindex(LEAVE):]


def test_unreachable_at_the_first_look_touches_no_terminal(on_redis, redis, screen):
    redis.kill()
    terminal = screen(on_redis, on_redis.path, "watch")
    assert terminal.wait_end() == 69
    assert b"klock: watch: cannot connect" in terminal.raw and b"\x1b" not in terminal.raw


@pytest.fixture
def shell(screen):
    """shell(klock) is an interactive bash, ready for a line."""

    def start(klock):
        terminal = screen(klock, "bash", "--norc", "--noprofile", "--noediting", "-i")
        terminal.send("PS1='ready''> '; stty -echo; cd .\n")
        terminal.wait_for("ready>$")
        return terminal

    return start


def stopped(pid):
    wait_until(lambda: process(pid).state == "T", what="klock is stopped")


def shell_got(terminal, expected, since):
    wait_until(lambda: terminal.read() or expected in terminal.raw[since:], timeout=10, what=f"{expected} of the shell")


@pytest.mark.parametrize("by_key", [True, False], ids=["Ctrl-Z", "SIGTSTP"])
def test_suspended_and_brought_back(store, shell, by_key):
    terminal = shell(store)
    store.hold("nightly")
    terminal.send(f"{store.path} watch --interval 100ms\n")
    terminal.wait_for("^nightly", KEYS)
    klock = terminal.klock_pid
    before = len(terminal.raw)
    if by_key:
        terminal.send("\x1a")
    else:
        os.kill(klock, signal.SIGTSTP)
    stopped(klock)
    shell_got(terminal, b"ready> ", before)
    assert LEAVE in terminal.raw[before:]
    before = len(terminal.raw)
    terminal.send("stty -a | grep -o -- ' -*icanon'; fg\n")
    shell_got(terminal, ENTER, before)
    assert b" icanon" in terminal.raw[before:]
    terminal.wait_for("^nightly", KEYS)
    terminal.send("w")
    terminal.wait_for("sort: waiters")
    before = len(terminal.raw)
    terminal.send("q")
    shell_got(terminal, b"ready> ", before)
    terminal.send("echo status $?\n")
    shell_got(terminal, b"status 0", before)


def test_killed_while_suspended_or_in_the_background(store, shell):
    terminal = shell(store)
    terminal.send(f"{store.path} watch &\n")
    klock = terminal.klock_pid
    stopped(klock)
    terminal.send("kill %1; kill -CONT %1\n")
    wait_until(lambda: not children(terminal.pid), what="klock has ended")
    assert ENTER not in terminal.raw


def test_suspended_by_force_and_brought_back(store, shell):
    terminal = shell(store)
    terminal.send(f"{store.path} watch --interval 1h\n")
    terminal.wait_for(KEYS)
    klock = terminal.klock_pid
    before = len(terminal.raw)
    os.kill(klock, signal.SIGSTOP)
    stopped(klock)
    shell_got(terminal, b"ready> ", before)
    before = len(terminal.raw)
    terminal.send("fg\n")
    shell_got(terminal, ENTER, before)
    terminal.wait_for(KEYS)
    terminal.send("q")
    wait_until(lambda: not children(terminal.pid), what="klock has ended")


def test_terminal_that_goes_away_ends_it(store, watch):
    terminal = watch(store)
    terminal.hang_up()
    wait_until(lambda: process(terminal.pid) is None or process(terminal.pid).state == "Z", what="klock has ended")


def test_terminal_that_goes_away_ends_it_without_a_signal_too(store, screen):
    terminal = screen(store, "sh", "-c", 'trap "" HUP; exec "$@"', "sh", store.path, "watch")
    terminal.wait_for(KEYS)
    terminal.hang_up()
    wait_until(lambda: process(terminal.pid) is None or process(terminal.pid).state == "Z", what="klock has ended")


@pytest.mark.parametrize("end, status", [(signal.SIGTERM, 143), (None, 0)], ids=["TERM", "q"])
def test_terminal_that_takes_no_more_holds_nothing_up(store, scripted_watch, end, status):
    terminal = scripted_watch(store)
    klock = terminal.klock_pid
    slave = terminal.open_slave()
    termios.tcflow(slave, termios.TCOOFF)
    if end:
        os.kill(klock, end)
    else:
        terminal.send("q")
    wait_until(lambda: process(klock) is None, what="klock has ended")
    termios.tcflow(slave, termios.TCOON)
    os.close(slave)
    terminal.wait_end()
    assert b"as before, status %d" % status in terminal.raw


def test_no_color(store, watch):
    for value, reverse in (("1", False), ("", True)):
        terminal = watch(store, env={"NO_COLOR": value})
        terminal.wait_for(KEYS)
        assert (b"\x1b[7m" in terminal.raw) == reverse


@pytest.mark.parametrize("width", [None, "40", "160"])
def test_once_prints_plain_text(store, width):
    holder = store.hold("nightly", "-m", "the reason")
    store.queue("nightly", 1)
    done = store.run("watch", "--once", env={"COLUMNS": width} if width else {})
    lines = done.out.splitlines()
    assert (done.status, done.err, len(lines)) == (0, "", 3) and "\x1b" not in done.out
    assert max(len(line) for line in lines) <= int(width or "80")
    assert re.match(r"..:..:..  1 held, 1 waiting  ", lines[0]) and lines[2].startswith("nightly")
    assert (f"pid {holder.pid} " in lines[2] and "the reason" in lines[2]) == (width == "160")


def test_once_on_a_terminal_is_as_wide_as_it_and_plain(store, screen):
    store.hold("n" * 100)
    terminal = screen(store, store.path, "watch", "--once", size=(24, 60), env={"COLUMNS": "200"})
    assert terminal.wait_end() == 0 and b"\x1b" not in terminal.raw
    assert max(len(line) for line in terminal.raw.decode().split("\r\n")) <= 60


def test_once_shows_all_rows(on_redis):
    for _ in range(30):
        on_redis.start("run", "-s", "m", "--", "sleep", "1000")
    wait_until(lambda: len(on_redis.state("m")["holders"]) == 30, timeout=10, what="all of them hold it")
    assert len(on_redis.run("watch", "--once").out.splitlines()) == 32


def test_once_with_an_unreachable_store(on_redis, redis):
    redis.kill()
    done = on_redis.run("watch", "--once")
    assert done.status == 69 and done.err.startswith("klock: watch: ") and done.out == ""


def test_no_terminal_is_a_usage_error(store, screen):
    done = store.run("watch")
    assert done.status == 64 and "--once" in done.err and done.out == ""
    for redirection in ("</dev/null", ">out"):
        terminal = screen(store, "sh", "-c", f"'{store.path}' watch {redirection}")
        assert terminal.wait_end() == 64 and b"--once" in terminal.raw


@pytest.mark.parametrize("words, told", [
    (["--interval", "99ms"], "at least 100ms"), (["--interval", "0"], "at least 100ms"), (["--interval", "x"], "'x'"),
    (["--sort", "size"], "'size'"), (["a", "b"], "one PATTERN"), (["--json"], "klock list --json"), (["--key", "k"], "--key")],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_wrong_usage(on_local, words, told):
    done = on_local.run("watch", "--once", *words)
    assert done.status == 64 and told in done.err and done.out == ""
