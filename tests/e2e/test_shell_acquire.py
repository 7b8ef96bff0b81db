# SPDX-License-Identifier: MIT
"""eval "$(klock acquire NAME)" in real shells."""
import os
import re
import signal
import subprocess

import pytest
from support import shells
from support.proc import SLOW, holds_for, wait_until

NAMES = ["plain", "it's", "a\"b", "$HOME", "$(touch-nothing)", "`x`", "a;b|c&d", "*", "\\n", "~", "ü", "-x", "a=b", "!!", "#x"]
VARIABLES = "KLOCK_NAME KLOCK_TOKEN KLOCK_FENCE KLOCK_MODE KLOCK_HELD"


@pytest.mark.parametrize("shell", shells.POSIX)
def test_eval_exports_the_hold(store, shell):
    script = shells.run(store, f'eval "$(klock acquire n)" || exit; for v in {VARIABLES}; do printenv $v; done', shell)
    name, token, fence, mode, held = script.out.splitlines()
    assert (script.status, script.err) == (0, "")
    assert name == "n" and re.fullmatch("[0-9a-f]{32}", token) and fence.isdigit() and mode == "exclusive" and held == token
    wait_until(lambda: store.is_free("n"), what="released when the shell has ended")


def test_fish(store):
    text = f"klock acquire --shell fish n | source; or exit; for v in {VARIABLES}; printenv $v; end"
    script = shells.run(store, text, "fish")
    assert script.status == 0 and script.out.splitlines()[0] == "n" and script.err == ""
    script = shells.run(store, "eval (klock acquire --shell fish n); or exit; printenv KLOCK_MODE", "fish")
    assert script.status == 0 and script.out == "exclusive\n"


@pytest.mark.parametrize("shell", [*shells.POSIX, "fish"])
def test_the_end_of_an_earlier_lease_is_not_taken_for_that_of_this_hold(store, shell):
    """Only of a lease that nobody renews the end is known."""
    if shell == "fish":
        text = ("klock acquire --shell fish --no-keeper a | source; or exit; set -q KLOCK_UNTIL; or exit 9;"
                " klock acquire --shell fish b | source; or exit; set -q KLOCK_UNTIL; and exit 8;"
                " klock acquire --shell fish c | source; or exit; printenv KLOCK_NAME")
    else:
        text = ('set -eu; eval "$(klock acquire --no-keeper a)"; : "$KLOCK_UNTIL"; eval "$(klock acquire b)";'
                ' test -z "${KLOCK_UNTIL+x}"; eval "$(klock acquire c)"; printenv KLOCK_NAME')
    script = shells.run(store, text, shell)
    assert (script.status, script.out, script.err) == (0, "c\n", "")


def test_eval_without_quotes_works_too(store):
    script = shells.run(store, "eval $(klock acquire n) || exit; printenv KLOCK_NAME KLOCK_MODE")
    assert script.status == 0 and script.out == "n\nexclusive\n"


@pytest.mark.parametrize("shell", [*shells.POSIX, "fish"])
def test_names_are_quoted(on_local, shell):
    for name in NAMES:
        if shell == "fish":
            text = 'klock acquire --shell fish -- "$name" | source; or exit; printenv KLOCK_NAME'
        else:
            text = 'eval "$(klock acquire -- "$name")" || exit; printenv KLOCK_NAME'
        script = shells.run(on_local, text, shell, env={"name": name})
        assert (script.status, script.out, script.err) == (0, name + "\n", ""), name


@pytest.mark.parametrize("message", ["it's", "two  words", "a\nb", "$(id)", "`id`", "\\", "\"", "\x1b[2J", b"\xff\xfe", ""])
def test_messages_do_no_harm(on_local, message):
    script = shells.hold(on_local, '-m "$message" n', env={"message": message})
    shown = on_local.run("status", "n")
    assert shown.status == 0 and "\x1b" not in shown.out
    if isinstance(message, str) and message.isprintable() and "\\" not in message:
        assert message in shown.out
    assert shells.finish(script) == 0


@pytest.mark.parametrize("shell", shells.POSIX)
def test_failure_has_its_status(store, shell):
    store.hold("n")
    for text in ('eval "$(klock acquire -n n)" || exit; echo not reached',
                 'set -e; eval "$(klock acquire -n n)"; echo not reached',
                 'lock=$(klock acquire -n n) || exit; echo not reached',
                 'eval "$(klock acquire -n n)"; exit $?'):
        script = shells.run(store, text, shell)
        assert (script.status, script.out) == (75, ""), text
        assert script.err.startswith("klock: n: busy, held by ") and script.err.count("\n") == 1
    script = shells.run(store, 'if eval "$(klock acquire -qn -E 9 n)"; then echo yes; else echo no $?; fi', shell)
    assert (script.out, script.err) == ("no 9\n", "")


def test_a_status_of_0_in_the_configuration_does_not_let_the_shell_go_on(on_local, tmp_path):
    on_local.hold("n")
    (tmp_path / "klock.toml").write_text("conflict-exit-code = 0\n")
    script = shells.run(on_local, 'eval "$(klock acquire -n n)" || exit; echo not reached',
                        env={"KLOCK_CONFIG": str(tmp_path / "klock.toml")})
    assert (script.status, script.out) == (75, "")


def test_failure_in_fish(store):
    store.hold("n")
    for text in ("klock acquire -n --shell fish n | source; or exit; echo not reached",
                 "eval (klock acquire -n --shell fish n); or exit; echo not reached"):
        script = shells.run(store, text, "fish")
        assert (script.status, script.out) == (75, ""), text


@pytest.mark.parametrize("words, status", [
    ("", 64), ("''", 64), ("a b", 64), ("'a b'", 64), ("--bogus n", 64), ("-w x n", 64), ("--slots 0 n", 64),
    ("-s --slots 2 n", 64), ("-n -E 0 n", 64), ("--slots 10001 n", 64), ("--shell tcsh n", 64), ("--pid 0 n", 64), ("--pid 4194305 n", 64),
    ("--for soon n", 64), ("--for 1ms n", 64), ("--for 1m --pid 1 n", 64), ("--max-waiters x n", 64),
    ("--signal NOPE n", 64), ("--ttl 1ms n", 64), ("--url redis://127.0.0.1:1 n", 69), ("--config /none n", 64)])
def test_mistakes_do_not_go_on_without_the_lock(on_local, words, status):
    for text in (f'eval "$(klock acquire {words})" || exit; echo not reached',
                 f'set -e; eval "$(klock acquire {words})"; echo not reached'):
        script = shells.run(on_local, text)
        assert (script.status, script.out) == (status, ""), script.err
        assert script.err.startswith("klock: ") and script.err.count("\n") == 1
    script = shells.run(on_local, f"klock acquire --shell fish {words} | source; or exit; echo not reached", "fish")
    assert (script.status, script.out) == (status, "")


@pytest.mark.parametrize("words", ["aquire n", "--bogus acquire n", "--url redis://x:y@h/0 acquire n"])
def test_mistakes_before_the_subcommand_neither(on_local, words):
    script = shells.run(on_local, f'eval "$(klock {words})" || exit; echo not reached')
    assert (script.status, script.out) == (64, "")


@pytest.mark.parametrize("text", [
    "klock acquire n | cat", "x=$(klock acquire n); echo $x", "klock acquire n & wait", "(klock acquire n)",
    "exec 3>&1; klock acquire n >&3 | cat", "klock acquire n 2>&1 | cat 2>&1", "x=`klock acquire n`; echo $x"])
def test_nobody_waits_for_the_keeper(store, text):
    """Whatever descriptor of the shell it kept: the reader of some pipe would not see the end."""
    argv = ["bash", "-c", text + "; echo end"]
    done = subprocess.run(argv, env={**store.env, **shells.environment(store)}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=10 * SLOW, check=True)
    assert b"KLOCK_TOKEN" in done.stdout and done.stdout.endswith(b"end\n")
    wait_until(lambda: store.is_free("n"), what="released")


def test_the_keeper_has_only_descriptors_of_its_own(store, tmp_path):
    (tmp_path / "file").touch()
    script = shells.start(store, f'exec 5<{tmp_path}/file 6>&1 17<>{tmp_path}/file; {shells.HOLD.format(words="n")}')
    wait_until(lambda: "up" in script.out, what="held")
    pid = shells.keeper(store)
    targets = {}
    for number in os.listdir(f"/proc/{pid}/fd"):
        targets[int(number)] = os.readlink(f"/proc/{pid}/fd/{number}")
    assert [targets[number] for number in (0, 1, 2)] == ["/dev/null"] * 3
    ours = re.compile(r"anon_inode:.*|/memfd:klock-hold-.*|socket:.*|.*/locks/klock:n\.lock|/dev/null")
    assert all(ours.fullmatch(target) for target in targets.values()), targets
    assert os.readlink(f"/proc/{pid}/cwd") == "/" and os.getsid(pid) == pid
    assert shells.finish(script) == 0


@pytest.mark.parametrize("shell", shells.POSIX)
@pytest.mark.parametrize("text", [
    "trap 'true' EXIT; trap 'true' USR1; eval \"$(klock acquire n 2>/dev/null)\"",
    "trap 'true' EXIT; eval \"$(true; klock acquire n || true)\"",
    "f() { klock acquire n; }; eval \"$(f)\"",
    "f() { (klock acquire n); }; trap 'true' EXIT; eval \"$(f; true)\""])
def test_the_shell_is_found_behind_its_substitution(store, shell, text):
    """Shells often run the inside of $( ) in a process that ends with it: the hold is not for that one."""
    script = shells.start(store, text + "; echo up; read -r line", shell)
    wait_until(lambda: "up" in script.out, what="held")
    state = store.state("n")
    assert state["holders"] and state["holders"][0]["pid"] == script.pid, (state, script.pid, script.err, script.status, shells.keepers(store))
    assert holds_for(lambda: shells.keepers(store), 0.1)
    assert shells.finish(script) in (0, 1)
    wait_until(lambda: store.is_free("n"), what="released")


def test_two_locks_in_one_shell(store):
    script = shells.start(store, 'eval "$(klock acquire a)" || exit; first=$KLOCK_TOKEN; eval "$(klock acquire b)" || exit;'
                                 ' echo "$first $KLOCK_TOKEN $KLOCK_HELD" up; read -r line')
    wait_until(lambda: "up" in script.out, what="held")
    first, second, *held = script.out.split()[:-1]
    assert held == [first, second] and first != second
    assert not store.is_free("a") and not store.is_free("b")
    assert shells.finish(script) in (0, 1)
    wait_until(lambda: store.is_free("a") and store.is_free("b"), what="released")


def test_held_tokens_of_the_callers_are_kept(on_local):
    old = "a" * 32
    env = {"KLOCK_HELD": f"junk {old}  $(id)", "KLOCK_TOKEN": "b" * 32}
    script = shells.run(on_local, 'eval "$(klock acquire n)"; echo "$KLOCK_HELD"; echo "$KLOCK_TOKEN"', env=env)
    held, token = script.out.splitlines()
    assert held.split(" ") == [old, "b" * 32, token]
    many = " ".join(f"{number:032x}" for number in range(100))
    script = shells.run(on_local, 'eval "$(klock acquire n)"; echo "$KLOCK_HELD"', env={"KLOCK_HELD": many})
    held = script.out.split()
    assert held[0] == f"{0:032x}" and len(held) <= 101


def test_a_second_acquire_does_not_wait_for_its_own_shell(store):
    text = 'eval "$(klock acquire n)" || exit; eval "$(klock acquire n)" || exit; echo not reached'
    script = shells.run(store, text)
    assert (script.status, script.out) == (75, "") and "already" in script.err


def test_run_within_the_shell_joins_its_holds(store):
    """The earlier one too, whose token only KLOCK_HELD has."""
    text = ('eval "$(klock acquire a)" || exit; eval "$(klock acquire b)" || exit; klock run a -- echo one && klock run b -- echo two;'
            ' klock release b; klock run -n b -- echo three; klock status -q a >/dev/null && echo still')
    script = shells.run(store, text)
    assert (script.status, script.out, script.err) == (0, "one\ntwo\nthree\nstill\n", "")


def test_waits_for_its_turn(store):
    holder = store.hold("n")
    script = shells.start(store, shells.HOLD.format(words="n"))
    wait_until(lambda: store.waiters("n") == 1, what="queued")
    assert script.out == ""
    holder.send(signal.SIGTERM)
    wait_until(lambda: "up" in script.out, what="held")
    assert shells.finish(script) == 0


def test_the_waiting_ends_with_the_shell(store):
    store.hold("n")
    script = shells.start(store, shells.HOLD.format(words="n"))
    wait_until(lambda: store.waiters("n") == 1, what="queued")
    script.send(signal.SIGKILL)
    wait_until(lambda: store.waiters("n") == 0, what="not waiting any more")


def test_interrupted_while_waiting(store):
    store.hold("n")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        waiter = store.start("acquire", "n", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        wait_until(lambda: store.waiters("n") == 1, what="queued")
        waiter.send(number)
        assert waiter.wait() == 128 + number and waiter.out == f"(exit {128 + number});\n" and waiter.err == ""
        assert store.waiters("n") == 0
    assert shells.keepers(store) == []


def test_wait_limit(store):
    store.hold("n")
    script = shells.run(store, 'eval "$(klock acquire -w 200ms n)" || exit')
    assert script.status == 75 and 0.2 <= script.seconds < 2 * SLOW


@pytest.mark.parametrize("stdout", ["/dev/full", "closed pipe", "closed"])
def test_unwritable_output_releases_again(store, stdout):
    if stdout == "closed":
        done = store.run("run", "other", "--", "sh", "-c", f"exec {store.path} acquire n >&-")
    elif stdout == "/dev/full":
        with open(stdout, "wb") as full:
            done = store.run("acquire", "n", stdout=full)
    else:
        reader, writer = os.pipe()
        os.close(reader)
        done = store.run("acquire", "n", stdout=os.fdopen(writer, "wb"))
    assert done.status == 71 and "standard output" in done.err
    assert store.is_free("n") and not shells.keepers(store)


def test_quiet_and_verbose(store):
    script = shells.run(store, 'eval "$(klock acquire -v n)" && klock status -q n')
    assert script.status == 0 and "acquired, fence" in script.err
