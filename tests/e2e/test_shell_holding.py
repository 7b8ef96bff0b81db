# SPDX-License-Identifier: MIT
"""renew, check and release by the token; leases without a keeper."""
import re
import time

import pytest
from support import shells
from support.proc import SLOW, holds_for, wait_until

COMMANDS = ("renew", "check", "release")
NOBODY = "0123456789abcdef" * 2


@pytest.fixture
def held(store):
    """A hold of a shell; `.by(command, *words)` deals with it from outside of that shell."""
    script = shells.hold(store, "--ttl 30s n")
    script.by = lambda *words, **more: store.run(*words, env={"KLOCK_TOKEN": script.token}, **more)
    yield script
    script.popen.stdin.close()


def test_check(store, held):
    assert held.by("check", "n").status == 0
    assert held.by("check", "--left", "5s", "n").status == 0
    other = held.by("check", "m")
    assert (other.status, other.out, other.err) == (1, "", "")
    explained = held.by("check", "-v", "m")
    assert explained.status == 1 and "klock: m: nothing is held with this token" in explained.err
    assert store.run("check", "--token", NOBODY, "n").status == 1


def test_check_left(on_redis):
    script = shells.hold(on_redis, "--ttl 2s n")
    env = {"KLOCK_TOKEN": script.token}
    assert on_redis.run("check", "--left", "500ms", "n", env=env).status == 0
    short = on_redis.run("check", "-v", "--left", "2100ms", "n", env=env)
    assert short.status == 1 and "less than 2.1s" in short.err
    assert shells.finish(script) == 0


def test_check_does_not_extend(on_redis, client):
    done = on_redis.run("acquire", "--no-keeper", "--ttl", "30s", "n")
    token = re.search("[0-9a-f]{32}", done.out)[0]
    client.pexpire("klock:n", 5000)
    assert on_redis.run("check", "n", env={"KLOCK_TOKEN": token}).status == 0
    assert client.pttl("klock:n") <= 5000
    assert on_redis.run("release", "n", env={"KLOCK_TOKEN": token}).status == 0


def test_renew_extends(on_redis, client):
    done = on_redis.run("acquire", "--no-keeper", "--ttl", "5s", "n")
    token = re.search("[0-9a-f]{32}", done.out)[0]
    renewed = on_redis.run("renew", "--ttl", "50s", "n", env={"KLOCK_TOKEN": token})
    assert (renewed.status, renewed.out, renewed.err) == (0, "", "")
    assert client.pttl("klock:n") > 40000
    assert on_redis.run("release", "n", env={"KLOCK_TOKEN": token}).status == 0


def test_renew_of_what_is_not_ours(store, held):
    for words in (["--token", NOBODY, "n"], ["--token", held.token, "m"]):
        lost = store.run("renew", *words)
        assert lost.status == 1 and lost.out == "" and lost.err.count("\n") == 1, lost.err
        assert lost.err.startswith("klock: ") and "acquired anew" in lost.err
    assert held.by("renew", "n").status == 0


def test_renew_of_a_lost_lease(on_redis, client):
    done = on_redis.run("acquire", "--no-keeper", "--ttl", "300ms", "n")
    token = re.search("[0-9a-f]{32}", done.out)[0]
    wait_until(lambda: not client.exists("klock:n"), what="expired")
    for command in ("renew", "check", "release"):
        assert on_redis.run(command, "n", env={"KLOCK_TOKEN": token}).status == 1
    holder = on_redis.hold("n")
    lost = on_redis.run("renew", "n", env={"KLOCK_TOKEN": token})
    assert lost.status == 1 and f"pid {holder.pid}" in lost.err


def test_release_from_another_process(store, held):
    done = held.by("release", "n")
    assert (done.status, done.out, done.err) == (0, "", "")
    assert store.is_free("n")
    again = held.by("release", "n")
    assert again.status == 1 and again.out == "" and again.err.count("\n") == 1
    wait_until(lambda: not shells.keepers(store), what="the keeper ends")
    assert held.status is None


def test_release_by_token_file(store, held, tmp_path):
    path = tmp_path / "token"
    path.write_text(held.token + "\nmore\n")
    assert store.run("check", "--token-file", str(path), "n").status == 0
    assert store.run("release", "--token-file", str(path), "n").status == 0
    assert store.is_free("n")


def test_release_of_somebody_elses(store, held):
    for words in (["--token", NOBODY, "n"], ["--token", held.token, "m"]):
        done = store.run("release", *words)
        assert done.status == 1 and done.err.count("\n") == 1
    assert not store.is_free("n")


def test_release_of_a_run_by_its_token(store):
    """Of whatever kind the hold is: a command whose hold is gone is stopped."""
    holder = store.hold("n", command="echo $KLOCK_TOKEN; exec sleep 1000")
    wait_until(lambda: len(holder.out.split()) == 2)
    assert store.run("release", "n", env={"KLOCK_TOKEN": holder.out.split()[1]}).status == 0
    assert store.is_free("n") and holder.wait() == 79


def test_release_of_the_first_of_two(store):
    text = ('eval "$(klock acquire a)" || exit; first=$KLOCK_TOKEN; eval "$(klock acquire b)" || exit;'
            ' klock release --token "$first" a && klock check b && ! klock check -q --token "$first" a && echo up; read -r line')
    script = shells.start(store, text)
    wait_until(lambda: "up" in script.out or script.status is not None, what="released")
    assert script.status is None, script.err
    assert store.is_free("a") and not store.is_free("b")
    shells.finish(script)


def test_each_of_two_is_known_by_its_name(store):
    text = ('eval "$(klock acquire a)" || exit; eval "$(klock acquire b)" || exit;'
            ' klock check a && klock renew a && klock check b && klock release a && ! klock check a && klock check b && echo up; read -r line')
    script = shells.start(store, text)
    wait_until(lambda: "up" in script.out or script.status is not None, what="released")
    assert script.status is None, script.err
    assert store.is_free("a") and not store.is_free("b")
    shells.finish(script)


def test_waiter_gets_what_is_released(store, held):
    (waiter,) = store.queue("n", 1)
    assert held.by("release", "n").status == 0
    assert waiter.wait(3) == 0


LEFT = """eval "$(klock acquire {words} n)" || exit
klock run n -- sh -c 'touch in; until test -e deeper; do sleep 0.02; done; {deeper}until test -e go; do sleep 0.02; done; exit 5' &
until test -e in; do sleep 0.02; done
klock release n || exit
echo $(klock check n; echo $?) $(klock renew -q --ttl 60s n; echo $?) $(klock release -q n; echo $?) $(klock run -q -n n -- true; echo $?)
wait $!; echo status $?; read -r line; exit 0"""


@pytest.mark.parametrize("words", ["-m why --ttl 900ms", "-m why --for 20s", "-m why --no-keeper --ttl 60s"])
def test_released_hold_is_left_to_a_run_that_has_joined(store, words):
    script = shells.start(store, LEFT.format(words=words, deeper="klock check n; echo within $?; klock run -n n -- echo deeper; "))
    wait_until(lambda: "\n" in script.out or script.status is not None, what="released")
    assert script.out == "1 1 1 75\n" and script.err == ""
    (holder,) = store.state("n")["holders"]
    assert holder["message"] == "why" and holder["id"] and holder["fence"] and holder["user"]
    (waiter,) = store.queue("n", 1)
    store.let("deeper")
    wait_until(lambda: "deeper" in script.out, what="joined through the one that has joined")
    assert "within 0" in script.out
    assert holds_for(lambda: waiter.status is None and "status" not in script.out and script.status is None, 0.6)
    store.let("go")
    wait_until(lambda: "status" in script.out, what="the run ends")
    assert "status 5" in script.out and script.err == ""
    assert waiter.wait(3) == 0
    assert shells.finish(script) == 0, "the shell has lost nothing"


@pytest.mark.parametrize("words", ["", "--for 20s"])
def test_forced_release_of_a_hold_that_was_left(store, words):
    script = shells.start(store, LEFT.format(words=words, deeper=""))
    wait_until(lambda: "75" in script.out or script.status is not None, what="released")
    assert store.run("force-release", "--yes", "--reason", "enough", "n").status == 0
    wait_until(lambda: "status" in script.out, what="the run is stopped")
    assert "status 79" in script.out and "enough" in script.err and store.is_free("n")
    shells.finish(script)


@pytest.mark.parametrize("command", COMMANDS)
def test_bad_tokens(on_local, command, tmp_path):
    empty = tmp_path / "empty"
    empty.touch()
    for words, env in ((["n"], {}), (["n"], {"KLOCK_TOKEN": ""}), (["--token", "", "n"], {}),
                       (["--token", NOBODY[:-1], "n"], {}), (["--token", NOBODY.upper(), "n"], {}),
                       (["--token", NOBODY, "--token-file", str(empty), "n"], {}),
                       ([], {"KLOCK_TOKEN": NOBODY}), (["a b"], {"KLOCK_TOKEN": NOBODY}), (["a", "b"], {"KLOCK_TOKEN": NOBODY})):
        done = on_local.run(command, *words, env=env)
        assert done.status == 64 and done.out == "" and done.err.count("\n") == 1, (words, done.err)
        assert NOBODY[:-1] not in done.err
    for words, env in ((["n"], {"KLOCK_TOKEN": "x"}), (["--token-file", str(empty), "n"], {})):
        done = on_local.run(command, *words, env=env)
        assert done.status == 78 and done.out == "" and "is not a token" in done.err
    assert on_local.run(command, "--token-file", "/none", "n").status == 71
    assert "klock acquire" in on_local.run(command, "n").err


@pytest.mark.parametrize("command", COMMANDS)
def test_unreachable_and_silent_servers(make_klock, make_redis, command):
    server = make_redis()
    klock = make_klock(server.url)
    server.freeze()
    done = klock.run(command, "--store-timeout", "300ms", "--token", NOBODY, "n")
    assert done.status == 69 and done.seconds < 2 * SLOW and NOBODY not in done.err
    server.kill()
    assert klock.run(command, "--token", NOBODY, "n").status == 69


def test_refused(make_klock, make_redis):
    klock = make_klock(make_redis("--requirepass", "right").url)
    for command in COMMANDS:
        assert klock.run(command, "--token", NOBODY, "n").status == 77


def test_lease_without_a_keeper(store):
    script = shells.run(store, 'eval "$(klock acquire --no-keeper --ttl 30s n)" || exit; echo "$KLOCK_TOKEN $KLOCK_UNTIL"')
    token, until = script.out.split()
    assert script.err == "" and 25 < int(until) - time.time() <= 30
    assert not shells.keepers(store) and not store.is_free("n")
    (held,) = store.state("n")["holders"]
    assert held["pid"] is None and held["program"] == "bash" and 20000 < held["expires_in_ms"] <= 30000
    busy = store.run("run", "-n", "n", "true")
    assert busy.status == 75 and re.search(r"2\ds left", busy.err)
    assert store.run("release", "--token", token, "n").status == 0 and store.is_free("n")


def test_lease_without_a_keeper_ends(store):
    assert store.run("acquire", "--no-keeper", "--ttl", "400ms", "n").status == 0
    assert not store.is_free("n")
    wait_until(lambda: store.is_free("n"), timeout=2, what="ended")


def test_maintenance(store):
    done = store.run("acquire", "--for", "1h", "-m", "new disks", "n")
    assert done.status == 0 and not shells.keepers(store)
    for words in (["run", "-n", "n", "true"], ["acquire", "-n", "n"]):
        busy = store.run(*words)
        assert busy.status == 75
        assert "(maintenance)" in busy.err and "new disks" in busy.err and re.search("(59m..s|1h00m) left", busy.err)
    assert "new disks" in store.run("status", "n").out
    assert store.run("force-release", "--yes", "--stale", "n").status == 1
    (waiter,) = store.queue("n", 1)
    token = re.search("[0-9a-f]{32}", done.out)[0]
    assert store.run("release", "--token", token, "n").status == 0
    assert waiter.wait(3) == 0


def test_maintenance_ends_by_itself(store):
    assert store.run("acquire", "--for", "500ms", "n").status == 0
    (waiter,) = store.queue("n", 1)
    assert waiter.wait(3) == 0


def test_readers_and_slots(store):
    first = shells.hold(store, "-s n")
    second = shells.hold(store, "-s n")
    assert store.run("acquire", "-n", "n").status == 75
    assert store.run("check", "--token", first.token, "n").status == 0
    assert shells.finish(first) == 0 and shells.finish(second) == 0
    wait_until(lambda: store.is_free("n"), what="released")
    slots = [shells.hold(store, "--slots 2 n") for _ in range(2)]
    assert store.run("acquire", "-n", "--slots", "2", "n").status == 75
    assert store.run("release", "--token", slots[0].token, "n").status == 0
    slots.append(shells.hold(store, "--slots 2 n"))
    for script in slots:
        assert shells.finish(script) == 0


def test_max_waiters(store):
    store.hold("n")
    store.queue("n", 1)
    full = store.run("acquire", "--max-waiters", "1", "n")
    assert full.status == 75 and full.out == "(exit 75);\n" and "1 is waiting already" in full.err
