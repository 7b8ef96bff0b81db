# SPDX-License-Identifier: MIT
"""--if-unavailable: what is done when the store can't be reached before anything has begun, and that it is told."""
import json
import signal
import socket
import threading
import uuid

import pytest
import redis
from support import shells
from support.ports import free_port
from support.proc import SLOW, wait_until

WAYS = ["local", "run"]
UNTIL_LET = "while ! test -e go; do sleep 0.02; done"


@pytest.fixture
def name():
    """The store of this host is everybody's: a name of our own."""
    return f"away-{uuid.uuid4().hex}"


@pytest.fixture
def down(make_redis):
    """A server that is down; start() brings it (back)."""
    server = make_redis()
    server.kill()
    return server


@pytest.fixture
def store(make_klock, down, tmp_path):
    """klock whose store is down, with an audit file."""
    klock = make_klock(down.url)
    klock.audit = tmp_path / "audit.jsonl"
    settings = tmp_path / "klock.toml"
    settings.write_text(f"audit-file = '{klock.audit}'\n", encoding="ascii")
    klock.env["KLOCK_CONFIG"] = str(settings)
    return klock


def audit(store):
    if not store.audit.exists():
        return []
    return [json.loads(line) for line in store.audit.read_text(encoding="utf8").splitlines()]


def kinds(store):
    return [event["event"] for event in audit(store)]


def log_of(store, name, url):
    done = store.run("log", "--json", "--url", url, name)
    assert done.status == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


@pytest.mark.parametrize("how", [(), ("--if-unavailable", "fail")])
def test_by_default_nothing_is_run(store, down, name, how):
    done = store.run("run", *how, name, "--", "touch", "ran")
    assert done.status == 69 and done.err.count("\n") == 1 and "Connection refused" in done.err
    (event,) = audit(store)
    assert (event["event"], event["name"], event["program"]) == ("gave_up", name, "touch")
    assert down.url in event["reason"] and "Connection refused" in event["reason"]
    assert [e["event"] for e in log_of(store, name, "local:")] == ["gave_up"], "this host's log tells it too"


def test_wait_goes_on_when_the_store_is_there(store, down, name):
    waiter = store.start("run", "--if-unavailable", "wait", name, "--", "sh", "-c", "exit 3")
    wait_until(lambda: "waiting for it" in waiter.err, what="told that the store is away")
    down.start()
    assert waiter.wait() == 3
    assert waiter.err.count("\n") == 2 and "the store is back after" in waiter.err, "told once each"
    told = {event["event"]: event for event in audit(store)}
    assert sorted(kinds(store)) == ["acquired", "reconnected", "released", "waiting"]
    assert told["waiting"]["id"] == told["acquired"]["id"] and down.url in told["waiting"]["reason"]
    assert told["reconnected"]["late_ms"] > 0
    assert [e["event"] for e in log_of(store, name, "local:")] == ["waiting", "reconnected"]
    assert [e["event"] for e in log_of(store, name, down.url)] == ["acquired", "released"]


def test_wait_keeps_the_wait_limit(store, name):
    done = store.run("run", "--if-unavailable", "wait", "-w", f"{SLOW}s", name, "--", "touch", "ran")
    assert done.status == 69 and SLOW <= done.seconds < 2.5 * SLOW
    assert kinds(store) == ["waiting", "gave_up"]


def test_wait_without_waiting_fails(store, name):
    done = store.run("run", "--if-unavailable", "wait", "-n", name, "--", "true")
    assert done.status == 69 and kinds(store) == ["gave_up"]


def test_wait_for_a_silent_store(store, down, name):
    down.start()
    down.freeze()
    waiter = store.start("run", "--if-unavailable", "wait", "--store-timeout", "0.3", name, "--", "true")
    wait_until(lambda: "waiting for it" in waiter.err, what="told")
    down.thaw()
    assert waiter.wait() == 0
    assert store.is_free(name) and not store.state(name)["waiters"]


@pytest.mark.parametrize("number, status", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_the_wait_can_be_interrupted(store, name, number, status):
    waiter = store.start("run", "--if-unavailable", "wait", name, "--", "touch", "ran")
    wait_until(lambda: "waiting for it" in waiter.err, what="told")
    waiter.send(number)
    assert waiter.wait() == status and kinds(store) == ["waiting", "gave_up"]


def test_local_takes_the_lock_of_this_host(store, down, name, tmp_path):
    holder = store.hold(name, "--if-unavailable", "local", command=UNTIL_LET)
    assert holder.err.count("\n") == 1 and "under the lock of this host alone" in holder.err, "told once"
    second = store.run("run", "--if-unavailable", "local", "-n", name, "--", "true")
    assert second.status == 75 and "busy" in second.err
    waiter = store.start("run", "--if-unavailable", "local", name, "--", "true")
    wait_until(lambda: store.run("status", "--url", "local:", name).out.count("pid") == 2, what="queued")
    assert waiter.status is None
    store.let("go")
    assert holder.wait() == 0 and waiter.wait() == 0
    mine = [e for e in audit(store) if e["pid"] == holder.pid]
    assert [e["event"] for e in mine] == ["acquired", "degraded", "released"]
    assert mine[1]["pid"] == holder.pid and down.url in mine[1]["reason"] and mine[2]["reason"] == "exit 0"


@pytest.mark.parametrize("options", [("-n",), ("-n", "-E", "0"), ("-w", "0.3"), ("--max-waiters", "0")])
def test_whoever_does_not_get_the_lock_of_this_host_did_not_go_on(store, name, options):
    store.hold(name, "--url", "local:")
    done = store.run("run", "--if-unavailable", "local", *options, name, "--", "touch", "ran")
    assert done.status == (0 if "-E" in options else 75) and "goes on" not in done.err
    assert "degraded" not in kinds(store) and kinds(store)[-1] == "timed_out"


def test_a_command_that_cannot_be_started_did_not_go_on(store, name, tmp_path):
    script = tmp_path / "bad"
    script.write_text("#!/nonexistent\n", encoding="ascii")
    script.chmod(0o755)
    done = store.run("run", "--if-unavailable", "run", name, "--", str(script))
    assert done.status == 127 and "released" not in done.err
    assert kinds(store) == ["degraded", "gave_up"] and "could not be started" in audit(store)[1]["reason"]


def test_work_that_is_done_already_is_not_told_as_done_without_the_lock(store, name):
    done = store.run("run", "--if-unavailable", "run", "--unless", "true", name, "--", "touch", "ran")
    assert done.status == 0 and kinds(store) == []


def test_run_goes_on_without_a_lock(store, name):
    first = store.hold(name, "--if-unavailable", "run")
    assert first.err.count("\n") == 1 and "without a lock" in first.err, "told once"
    second = store.run("run", "--if-unavailable", "run", "-n", name, "--", "sh", "-c", "echo $KLOCK_FENCE; exit 7")
    assert (second.status, second.out) == (7, "0\n"), "no writer that checks fences takes it for a holder"
    assert kinds(store) == ["degraded", "degraded"]
    assert [e["event"] for e in log_of(store, name, "local:")] == ["degraded", "degraded"]


@pytest.mark.parametrize("way, acquired", [("local", True), ("run", False)])
def test_the_outcome_tells_it(store, name, tmp_path, way, acquired):
    outcome = tmp_path / "outcome"
    store.run("run", "--if-unavailable", way, "--outcome-file", str(outcome), name, "--", "true")
    report = json.loads(outcome.read_text(encoding="utf8"))
    assert (report["degraded"], report["acquired"], report["outcome"]) == (way, acquired, "completed")
    assert (report["fence"] is not None) == acquired


def test_quiet_says_nothing(store, name):
    done = store.run("run", "-q", "--if-unavailable", "run", name, "--", "true")
    assert (done.status, done.err) == (0, "") and kinds(store) == ["degraded"]


def refusing(server, client, name):
    """Servers that answer, each with what it says no by."""
    def wrong_password():
        client.config_set("requirepass", "secret")
    def wrong_type():
        client.lpush(f"klock:{name}", "x")
        client.set(f"{{klock:{name}}}:holders", "x")
    def out_of_memory():
        client.config_set("maxmemory", "1")
    def replica():
        client.replicaof("127.0.0.1", str(free_port()))
    def no_replicas():
        client.config_set("min-replicas-to-write", "1")
    def no_rights():
        client.execute_command("ACL", "SETUSER", "default", "-eval", "-evalsha", "-watch")
    return [wrong_password, wrong_type, out_of_memory, replica, no_replicas, no_rights]


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("way", WAYS)
def test_a_store_that_says_no_is_obeyed(store, down, name, way, number):
    """It may know of others who hold the lock."""
    down.start()
    refusing(down, down.client(), name)[number]()
    done = store.run("run", "-n", "--if-unavailable", way, name, "--", "touch", "ran")
    assert done.status in (69, 75, 77) and "degraded" not in kinds(store), done.err
    assert "goes on" not in done.err


@pytest.mark.parametrize("way", WAYS)
def test_what_is_no_redis_is_no_store_that_is_away(make_klock, name, way):
    listener = socket.create_server(("127.0.0.1", 0))

    def answer():
        peer, _ = listener.accept()
        with peer:
            peer.recv(1000)
            peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    threading.Thread(target=answer, daemon=True).start()
    klock = make_klock(f"redis://127.0.0.1:{listener.getsockname()[1]}")
    done = klock.run("run", "--if-unavailable", way, name, "--", "true")
    assert done.status == 69 and "goes on" not in done.err


@pytest.mark.parametrize("way", WAYS)
def test_a_server_that_is_busy_with_a_script_is_there(store, down, name, way):
    down.start()
    down.client().config_set("lua-time-limit", "50")
    script = threading.Thread(target=lambda: suppressed(down.client().eval, "while true do end", 0))
    script.start()
    try:
        wait_until(lambda: "BUSY" in suppressed(down.client().ping), what="it is busy")
        done = store.run("run", "--store-timeout", "0.3", "--if-unavailable", way, name, "--", "touch", "ran")
        assert done.status == 69 and "busy" in done.err and "degraded" not in kinds(store)
    finally:
        down.client().script_kill()
        script.join()


def suppressed(call, *words):
    try:
        return str(call(*words))
    except redis.exceptions.RedisError as error:
        return str(error)


@pytest.mark.parametrize("status", [75, 0])
def test_a_store_that_has_gone_is_not_busy(store, down, name, status):
    """Nobody knows who holds it now."""
    down.start()
    store.hold(name, "--ttl", "60s")
    waiter = store.start("run", "-w", f"{4 * SLOW}s", "-E", str(status), name, "--", "true")
    wait_until(lambda: store.waiters(name) == 1, what="queued")
    down.kill()
    assert waiter.wait(30) == 69 and "busy" not in waiter.err
    (end,) = [e for e in audit(store) if e["event"] == "gave_up" and down.url in e.get("reason", "")]
    assert end["pid"] == waiter.pid
    down.start()  # so that the holder can release


def test_the_wait_ends_with_what_was_wrong(store, down, name):
    down.start()
    down.client().config_set("maxmemory", "1")
    done = store.run("run", "--if-unavailable", "wait", "-w", f"{1.5 * SLOW}s", name, "--", "true")
    assert done.status == 69 and done.err.count("out of memory") == 2
    assert "out of memory" in audit(store)[-1]["reason"]


def test_a_log_that_cannot_be_written_is_told(make_klock, name, as_nobody):
    klock = make_klock(f"redis://127.0.0.1:{free_port()}")
    klock.env["HOME"] = klock.env["XDG_STATE_HOME"] = "/nonexistent"
    done = as_nobody(klock, "run", "--if-unavailable", "run", name, "--", "true")
    assert done.wait() == 0 and done.err.count("\n") == 2 and "log" in done.err


def test_an_audit_file_that_cannot_be_written_is_told_once(store, name):
    done = store.run("run", "--audit-file", "/nonexistent/x", "--if-unavailable", "local", name, "--", "true")
    assert done.status == 0 and done.err.count("/nonexistent/x") == 1


@pytest.mark.parametrize("way", WAYS)
def test_work_to_be_done_once_is_not_done_blindly(store, name, way):
    done = store.run("run", "--once", "today", "--if-unavailable", way, name, "--", "touch", "ran")
    assert done.status == 69 and "--once" in done.err and kinds(store) == ["gave_up"]


@pytest.mark.parametrize("way", WAYS)
def test_the_store_comes_back(store, down, name, way):
    run = store.hold(name, "--if-unavailable", way, command=UNTIL_LET)
    down.start()
    holder = store.hold(name, "-m", "meanwhile")
    wait_until(lambda: "is back" in run.err, timeout=15, what="told that it is back")
    wait_until(lambda: "reconnected" in kinds(store), what="noted")
    (told,) = [e for e in log_of(store, name, down.url) if e["event"] == "degraded"]
    assert told["pid"] == run.pid and "Connection refused" in told["reason"]
    (back,) = [e for e in audit(store) if e["event"] == "reconnected"]
    assert back["late_ms"] > 0 and back["id"] == told["id"]
    groups = json.loads(store.run("stats", "--json", name).out)
    assert groups[0]["degraded"] == 1
    store.let("go")
    assert run.wait() == 0 and run.err.count("is back") == 1
    assert holder.status is None and not store.is_free(name), "nothing was done to whoever holds it now"


def test_whoever_holds_it_meanwhile_is_named(store, down, name):
    down.start()
    holder = store.hold(name, "-m", "meanwhile", "--ttl", "60s")
    down.freeze()
    run = store.hold(name, "--store-timeout", "0.3", "--if-unavailable", "run")
    down.thaw()
    wait_until(lambda: "is back" in run.err, timeout=15, what="told that it is back")
    assert "held meanwhile by" in run.err and f"pid {holder.pid}" in run.err
    (back,) = [e for e in audit(store) if e["event"] == "reconnected"]
    assert f"pid {holder.pid}" in back["reason"]


@pytest.mark.parametrize("way", WAYS)
def test_what_a_silent_store_was_asked_for_is_given_back(store, down, name, way):
    """The request is in its socket: it is executed once the server goes on."""
    down.start()
    down.freeze()
    run = store.hold(name, "--store-timeout", "0.3", "--ttl", "300s", "--if-unavailable", way)
    down.thaw()
    wait_until(lambda: "is back" in run.err, timeout=15, what="told that it is back")
    assert store.is_free(name) and not store.state(name)["waiters"]
    assert run.status is None


def test_a_run_within_joins_the_lock_of_this_host(store, name):
    done = store.run("run", "--if-unavailable", "local", name, "--", store.path, "run", "--if-unavailable", "local",
                     "-v", "-n", name, "--", "echo", "inner")
    assert done.status == 0 and done.out == "inner\n" and "joins the hold" in done.err


@pytest.mark.parametrize("way", WAYS)
def test_several_locks(store, name, way):
    done = store.run("run", "--if-unavailable", way, "--also", name + "b", name, "--", "true")
    assert done.status == 0
    assert {e["name"] for e in audit(store) if e["event"] == "degraded"} == {name, name + "b"}
    assert kinds(store).count("acquired") == (2 if way == "local" else 0)


@pytest.mark.parametrize("way", WAYS)
def test_a_killed_klock_leaves_nothing(store, name, way):
    run = store.hold(name, "--if-unavailable", way, command="trap '' TERM; while :; do sleep 0.05; done")
    run.send(signal.SIGKILL)
    assert run.wait() == 137
    wait_until(lambda: not store.leftovers(), timeout=15, what="the command is dead")
    assert store.run("run", "--url", "local:", "-w", "5", name, "--", "true").status == 0


@pytest.mark.parametrize("option, status", [(["--if-unavailable", "maybe"], 64), (["--if-unavailable"], 64)])
def test_wrong_values(store, name, option, status):
    assert store.run("run", *option, name, "--", "true").status == status


def test_from_the_configuration(store, name, tmp_path):
    settings = tmp_path / "other.toml"
    settings.write_text("if-unavailable = 'run'\n", encoding="ascii")
    done = store.run("run", "-v", "--config", str(settings), name, "--", "true")
    assert done.status == 0 and "if-unavailable run (" in done.err
    settings.write_text("if-unavailable = 'never'\n", encoding="ascii")
    assert store.run("run", "--config", str(settings), name, "--", "true").status == 78


def test_acquire_under_the_lock_of_this_host(store, name):
    script = shells.hold(store, f"--if-unavailable local {name}")
    assert script.err.count("\n") == 1 and "under the lock of this host alone" in script.err
    assert script.token.startswith("local:")
    other = shells.run(store, f'eval "$(klock acquire --if-unavailable local -n {name})" || exit; echo wrong')
    assert other.status == 75 and "wrong" not in other.out
    assert store.run("check", "--token", script.token, name).status == 0
    assert shells.finish(script) == 0
    wait_until(lambda: not shells.keepers(store), what="the keeper is gone")
    assert kinds(store)[:2] == ["acquired", "degraded"] and kinds(store)[-1] == "released"


def test_scripts_find_their_hold_of_this_host(store, down, name):
    """Also when the store is back, and other holds of the shell are there."""
    text = (f'eval "$(klock acquire --if-unavailable local {name})" || exit; klock check {name} || exit 1; touch up;'
            f' while ! test -e go; do sleep 0.02; done; eval "$(klock acquire other)" || exit 2;'
            f" klock check {name} || exit 3; klock renew {name} || exit 4; klock check other || exit 5;"
            f" klock release {name} || exit 6; klock check {name} && exit 7; klock check other || exit 8; echo good")
    script = shells.start(store, text)
    wait_until(lambda: "acquired" in kinds(store), what="held on this host")
    down.start()
    store.let("go")
    assert script.wait(20) == 0 and script.out == "good\n", (script.status, script.err)


def test_acquire_without_a_lock(store, name):
    text = (f'eval "$(klock acquire --if-unavailable run {name})" || exit; echo $KLOCK_FENCE;'
            f" klock check {name}; echo $?; klock renew {name}; echo $?; klock release {name}; echo $?; read -r line")
    script = shells.start(store, text)
    wait_until(lambda: script.out.count("\n") == 4, what="released")
    wait_until(lambda: not shells.keepers(store), what="nothing is left to watch for the store")
    assert script.out == "0\n1\n1\n0\n" and "without a lock" in script.err and kinds(store) == ["degraded"]
    assert shells.finish(script) in (0, 1)


def test_acquire_waits_for_the_store(store, down, name):
    script = shells.start(store, f'eval "$(klock acquire --if-unavailable wait {name})" || exit; echo up')
    wait_until(lambda: "waiting for it" in script.err, what="told")
    down.start()
    assert script.wait() == 0 and script.out == "up\n" and "is back" in script.err


def test_acquire_fails_by_default(store, name):
    script = shells.run(store, f'eval "$(klock acquire {name})" || exit; echo wrong')
    assert (script.status, script.out) == (69, "") and kinds(store) == ["gave_up"]


@pytest.mark.parametrize("way", WAYS)
def test_the_keeper_notes_that_the_store_is_back(store, down, name, way):
    script = shells.hold(store, f"--if-unavailable {way} {name}")
    shells.keeper(store)
    down.start()
    wait_until(lambda: "reconnected" in kinds(store), timeout=15, what="noted")
    assert [e["event"] for e in log_of(store, name, down.url)] == ["degraded"]
    if way == "run":
        wait_until(lambda: not shells.keepers(store), what="it has nothing more to do")
    assert shells.finish(script) == 0


def test_a_maintenance_hold_on_this_host(store, name):
    token = shells.run(store, f'eval "$(klock acquire --if-unavailable local --for 60s {name})" || exit;'
                              " echo $KLOCK_TOKEN; test $KLOCK_UNTIL").out.strip()
    assert store.run("run", "--if-unavailable", "local", "-n", name, "--", "true").status == 75
    assert store.run("release", "--token", token, name).status == 0
    assert store.run("run", "--if-unavailable", "local", "-n", name, "--", "true").status == 0


def test_the_local_store_is_never_away(on_local, name):
    assert on_local.run("run", "--if-unavailable", "run", name, "--", "true").status == 0
    assert [e["event"] for e in log_of(on_local, name, on_local.url)] == ["acquired", "released"]
