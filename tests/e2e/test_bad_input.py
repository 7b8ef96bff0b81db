# SPDX-License-Identifier: MIT
"""Nonsense is refused before anything is touched: status 64 or 78, one helpful line, not one connection."""
import pytest
from support.servers import FalseServer

BAD_COMMAND_LINES = {
    "nothing": [],
    "unknown subcommand": ["frobnicate"],
    "no name": ["run"],
    "no command": ["run", "n"],
    "no command after --": ["run", "n", "--"],
    "empty name": ["run", "", "true"],
    "name with a space": ["run", "a b", "true"],
    "name with a newline": ["run", "a\nb", "true"],
    "name with a tab": ["run", "a\tb", "true"],
    "name of 201 bytes": ["run", "n" * 201, "true"],
    "name that is no UTF-8": [b"run", b"\xff", b"true"],
    "name with an escape": ["run", "\x1b[2J", "true"],
    "unknown option": ["run", "--frobnicate", "n", "true"],
    "unknown option after the name": ["run", "n", "--frobnicate", "true"],
    "unknown letter after the name": ["run", "n", "-Z", "true"],
    "option without its value": ["run", "n", "-w"],
    "wait with a wrong unit": ["run", "-w", "5x", "n", "true"],
    "wait below zero": ["run", "-w", "-1", "n", "true"],
    "wait that is empty": ["run", "-w", "", "n", "true"],
    "wait with an exponent": ["run", "-w", "1e3", "n", "true"],
    "wait that is not a number": ["run", "-w", "nan", "n", "true"],
    "wait with a space": ["run", "-w", "5 s", "n", "true"],
    "wait over a year": ["run", "-w", "366d", "n", "true"],
    "wait beyond all numbers": ["run", "-w", "99999999999999999999s", "n", "true"],
    "both -n and -w": ["run", "-n", "-w", "5", "n", "true"],
    "ttl too short": ["run", "--ttl", "199ms", "n", "true"],
    "ttl 0": ["run", "--ttl", "0", "n", "true"],
    "kill-after over a third of the ttl": ["run", "-k", "6s", "n", "true"],
    "kill-after over a third of a short ttl": ["run", "--ttl", "3s", "-k", "2s", "n", "true"],
    "conflict exit code 256": ["run", "-E", "256", "n", "true"],
    "conflict exit code -1": ["run", "-E", "-1", "n", "true"],
    "conflict exit code abc": ["run", "-E", "abc", "n", "true"],
    "no slots": ["run", "--slots", "0", "n", "true"],
    "too many slots": ["run", "--slots", "10001", "n", "true"],
    "slots that are no number": ["run", "--slots", "two", "n", "true"],
    "shared with slots": ["run", "-s", "--slots", "2", "n", "true"],
    "shared and exclusive": ["run", "-s", "-x", "n", "true"],
    "max-waiters below zero": ["run", "--max-waiters", "-1", "n", "true"],
    "once without a key": ["run", "--once", "", "n", "true"],
    "once shared": ["run", "--once", "k", "-s", "n", "true"],
    "once with a space": ["run", "--once", "a b", "n", "true"],
    "once without its value": ["run", "n", "--once"],
    "once-ttl without once": ["run", "--once-ttl", "1d", "n", "true"],
    "once-ttl 0": ["run", "--once", "k", "--once-ttl", "0", "n", "true"],
    "once-ttl nonsense": ["run", "--once", "k", "--once-ttl", "x", "n", "true"],
    "skip exit code 256": ["run", "--skip-exit-code", "256", "n", "true"],
    "unless without a check": ["run", "--unless", "", "n", "true"],
    "also an empty name": ["run", "--also", "", "n", "true"],
    "also a bad name": ["run", "--also", "a b", "n", "true"],
    "also too many": ["run", *[word for i in range(64) for word in ("--also", f"m{i}")], "n", "true"],
    "once with no words": ["once"],
    "once show without a key": ["once", "show", "n"],
    "once show of an empty key": ["once", "show", "n", ""],
    "once show of a bad name": ["once", "show", "a b", "k"],
    "once with an unknown word": ["once", "drop", "n", "k"],
    "no such signal": ["run", "--signal", "NOPE", "n", "true"],
    "signal 0": ["run", "--signal", "0", "n", "true"],
    "signal 65": ["run", "--signal", "65", "n", "true"],
    "on-lost maybe": ["run", "--on-lost", "maybe", "n", "true"],
    "on-gone maybe": ["run", "--on-gone", "maybe", "n", "true"],
    "max-hold nonsense": ["run", "--max-hold", "soon", "n", "true"],
    "min-hold nonsense": ["run", "--min-hold", "-3s", "n", "true"],
    "-c and a command": ["run", "n", "-c", "true", "--", "false"],
    "url of an unknown scheme": ["run", "--url", "http://localhost", "n", "true"],
    "url with port 0": ["run", "--url", "redis://localhost:0", "n", "true"],
    "url with port 65536": ["run", "--url", "redis://localhost:65536", "n", "true"],
    "url with a wrong database": ["run", "--url", "redis://localhost/x", "n", "true"],
    "url that is empty": ["run", "--url", "", "n", "true"],
    "local url with a relative path": ["run", "--url", "local:locks", "n", "true"],
    "config that is not there": ["run", "--config", "/no/such/file", "n", "true"],
    "store timeout nonsense": ["run", "--store-timeout", "x", "n", "true"],
    "status of a bad name": ["status", "a b"],
    "force-release of nothing": ["force-release"],
    "force-release of an empty name": ["force-release", "--yes", ""],
    "force-release without --yes and without a terminal": ["force-release", "n"],
    "list with two patterns": ["list", "a", "b"],
    "completion of an unknown shell": ["completion", "tcsh"],
}


@pytest.fixture
def listener():
    with FalseServer() as server:
        yield server


def check(done, status, listener):
    assert done.status == status, (done.status, done.err)
    assert done.out == "" and done.err.startswith("klock: ") and done.err.count("\n") == 1, done.err
    assert "\x1b" not in done.err
    assert listener.connections == 0


@pytest.mark.parametrize("what", BAD_COMMAND_LINES)
def test_usage_error(make_klock, listener, what):
    check(make_klock(listener.url).run(*BAD_COMMAND_LINES[what]), 64, listener)


def test_shell_string_with_further_words_shows_the_quoting(make_klock, listener):  # C54
    done = make_klock(listener.url).run("run", "n", "-c", "echo", "a", "b")
    check(done, 64, listener)
    assert "-c '" in done.err


def test_typo_after_the_name_does_not_become_the_command(make_klock, listener):
    done = make_klock(listener.url).run("run", "n", "--tttl", "5s", "true")
    check(done, 64, listener)
    assert "--tttl" in done.err and "--" in done.err


def test_password_in_the_url_option_is_refused_and_not_repeated(make_klock, listener):  # C60
    url = f"redis://user:s3cret@127.0.0.1:{listener.port}"
    done = make_klock().run("run", "--url", url, "n", "true")
    check(done, 64, listener)
    assert "s3cret" not in done.err and "KLOCK_PASSWORD_FILE" in done.err and "KLOCK_URL" in done.err


def test_quiet_still_tells_usage_errors(make_klock, listener):
    check(make_klock(listener.url).run("run", "-q", "--ttl", "x", "n", "true"), 64, listener)


@pytest.mark.parametrize("name, value", [
    ("KLOCK_TTL", "soon"), ("KLOCK_TTL", "10ms"), ("KLOCK_TTL", ""), ("KLOCK_URL", "http://x"), ("KLOCK_URL", "redis://:pw@"),
    ("KLOCK_CONFIG", "/no/such/file"), ("KLOCK_PASSWORD_FILE", "/no/such/file")])
def test_wrong_value_in_the_environment_is_78_and_names_it(make_klock, listener, name, value):
    done = make_klock(listener.url).run("run", "n", "true", env={name: value})
    if value == "":
        assert done.status in (78, 69)  # an empty variable may count as unset
        return
    check(done, 78, listener)
    assert name in done.err and "pw" not in done.err


@pytest.mark.parametrize("text", [
    'ttl = "soon"', "tll = 5", "ttl = true", "ttl = ", 'on-lost = "maybe"', "conflict-exit-code = 300", 'max-waiters = "x"', "tree = 1", 'once-ttl = "x"', "skip-exit-code = 256",
    'url = "http://x"', 'ttl = "3s"\nkill-after = "2s"', "[run]\nttl = 5"])
def test_wrong_config_file_is_78_and_names_file_and_line(make_klock, listener, tmp_path, text):
    path = tmp_path / "klock.toml"
    path.write_text(f"# first line\n{text}\n")
    klock = make_klock(None if "url" in text else listener.url)  # the environment's URL would win over the file's
    done = klock.run("run", "n", "true", env={"KLOCK_CONFIG": str(path)})
    check(done, 78, listener)
    assert str(path) in done.err


def test_near_miss_in_the_config_names_the_right_key(make_klock, listener, tmp_path):
    path = tmp_path / "klock.toml"
    path.write_text("# first line\n\ntll = 5\n")
    done = make_klock(listener.url).run("run", "n", "true", env={"KLOCK_CONFIG": str(path)})
    check(done, 78, listener)
    assert f"{path}:3" in done.err and "ttl" in done.err.replace("tll", "")


def test_force_release_without_a_terminal_never_prompts(store):  # C61
    holder = store.hold("n")
    for stdin in (None, -1):
        done = store.run("force-release", "n", stdin=stdin, timeout=2)
        assert done.status == 64 and "--yes" in done.err
    assert holder.status is None
