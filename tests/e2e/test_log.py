# SPDX-License-Identifier: MIT
"""What happened: each change of state is one event of the log, with who, how long and why."""
import getpass
import json
import os
import signal
import socket
import stat
import subprocess
import time

import pytest
from support.proc import SLOW, wait_until, wipe_out

EXPIRY = {"timeout": 20}


def events_of(store, name="n", *options):
    done = store.run("log", "--json", *options, name)
    assert done.status == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


def kinds(store, name="n"):
    return [event["event"] for event in events_of(store, name)]


def only(store, kind, name="n"):
    found = [event for event in events_of(store, name) if event["event"] == kind]
    assert len(found) == 1, f"{kind}: {events_of(store, name)}"
    return found[0]


def test_a_run_is_told_from_beginning_to_end(store):
    store.run("run", "-m", "weekly", "n", "--", "sh", "-c", "echo secret; exit 3")
    start, end = events_of(store)
    assert (start["event"], end["event"]) == ("acquired", "released")
    for event in (start, end):
        assert (event["name"], event["mode"], event["program"], event["message"]) == ("n", "exclusive", "sh", "weekly")
        assert (event["user"], event["host"]) == (getpass.getuser(), socket.gethostname())
        assert event["pid"] > 0 and event["id"] == start["id"] and event["fence"] == start["fence"]
        assert "command" not in event and "secret" not in json.dumps(event), "never the command line"
    assert start["waited_ms"] == 0 and end["reason"] == "exit 3" and 0 <= end["held_ms"] < 60000
    assert start["time"] <= end["time"]


def test_the_reason_of_an_end(store):
    store.run("run", "killed", "--", "sh", "-c", "kill -KILL $$")
    store.run("run", "--max-hold", "0.2", "long", "--", "sleep", "1000")
    assert only(store, "released", "killed")["reason"] == "signal KILL"
    assert only(store, "released", "long")["reason"] == "max-hold"


def test_the_whole_command_only_on_demand(store):
    store.run("run", "--record-command", "full", "n", "--", "sh", "-c", "exit 0", "a b")
    assert {event["command"] for event in events_of(store)} == {"'sh' '-c' 'exit 0' 'a b'"}


def test_a_killed_klock_is_told_by_its_guard(store):
    holder = store.hold("n", "--ttl", "60s")
    holder.send(signal.SIGKILL)
    wait_until(lambda: "released" in kinds(store), what="the guard has released")
    assert only(store, "released")["reason"] == "klock was killed"


def test_waiting_and_what_came_of_it(store):
    holder = store.hold("n", command="while ! test -e go; do sleep 0.02; done")
    waiter = store.queue("n", 1)[0]
    only(store, "waiting")
    store.let("go")
    assert holder.wait() == 0 and waiter.wait() == 0
    first, waits, released, second, _ = events_of(store)
    assert [event["event"] for event in (first, waits, released, second)] == \
        ["acquired", "waiting", "released", "acquired"]
    assert waits["id"] == second["id"] != first["id"] and second["waited_ms"] > 0


@pytest.mark.parametrize("options", [("-n",), ("-w", "0.2"), ("--max-waiters", "0")])
def test_timed_out(store, options):
    store.hold("n")
    assert store.run("run", *options, "n", "--", "true").status == 75
    event = only(store, "timed_out")
    assert (event["waited_ms"] > 100) == ("-w" in options)
    assert kinds(store).count("waiting") == (1 if "-w" in options else 0)


def test_gave_up(store):
    store.hold("n")
    waiter = store.queue("n", 1)[0]
    waiter.send(signal.SIGTERM)
    waiter.wait()
    assert only(store, "gave_up")["id"] == only(store, "waiting")["id"]


def test_skipped(store):
    for _ in range(2):
        assert store.run("run", "--once", "today", "n", "--", "true").status == 0
    assert kinds(store) == ["acquired", "released", "skipped"]


@pytest.mark.parametrize("how", [(), ("--now",)])
def test_forced_is_told_once_by_whom_and_why(store, how):
    holder = store.hold("n", "--ttl", "60s")
    assert store.run("force-release", "--yes", *how, "--reason", "it hangs", "n").status == 0
    assert holder.wait() == 79
    event = only(store, "forced")
    assert event["by"] == f"{getpass.getuser()}@{socket.gethostname()}" and event["reason"] == "it hangs"
    assert event["id"] == only(store, "acquired")["id"] and event["held_ms"] >= 0
    assert kinds(store) == ["acquired", "forced"], "one end"


def test_forced_end_of_a_maintenance_hold(store):
    assert store.run("acquire", "--for", "1h", "-m", "new disks", "n").status == 0
    assert store.run("force-release", "--yes", "--reason", "done", "n").status == 0
    event = only(store, "forced")
    assert event["reason"] == "done" and event["message"] == "new disks"
    assert kinds(store) == ["acquired", "forced"]


def test_a_shells_hold_ends_once(store):
    script = f'eval "$({store.path} acquire n)" && {store.path} release n'
    assert store.start_program("sh", "-c", script).wait() == 0
    wait_until(lambda: "released" in kinds(store), what="the end is told")
    assert kinds(store) == ["acquired", "released"] and only(store, "released")["reason"] == "klock release"


def test_the_end_of_a_shell_is_a_reason(store):
    assert store.start_program("sh", "-c", f'eval "$({store.path} acquire n)"').wait() == 0
    wait_until(lambda: "released" in kinds(store), what="the keeper has released")
    assert only(store, "released")["reason"] == "the shell has ended"


def test_a_lease_without_a_keeper(store):
    script = f'eval "$({store.path} acquire --no-keeper --ttl 60s n)" && {store.path} release n'
    assert store.start_program("sh", "-c", script).wait() == 0
    assert kinds(store) == ["acquired", "released"]


def test_a_second_acquire_of_the_same_shell_is_no_timeout(store):
    script = f'eval "$({store.path} acquire n)"; {store.path} acquire n >/dev/null'
    store.start_program("sh", "-c", script).wait()
    wait_until(lambda: "released" in kinds(store), what="the keeper has released")
    assert kinds(store) == ["acquired", "released"]


def test_lost_when_the_record_is_taken_away(store, request):
    holder = store.hold("n", "--ttl", "3s")
    if store.url.startswith("local:"):
        directory = request.getfixturevalue("local_directory")
        (directory / next(name for name in os.listdir(directory) if name.endswith(".lock"))).unlink()
    else:
        request.getfixturevalue("client").delete("klock:n")
    assert holder.wait() == 79
    assert kinds(store) == ["acquired", "lost"] and only(store, "lost")["id"] == only(store, "acquired")["id"]


@pytest.mark.parametrize("mode", ["-x", "-s"])
def test_expired_is_told_by_whoever_comes_next(on_redis, mode):
    holder = on_redis.hold("n", mode, "--ttl", "1s")
    wipe_out(holder)
    assert on_redis.run("run", "n", "--", "true", **EXPIRY).status == 0
    event = only(on_redis, "expired")
    assert event["id"] == events_of(on_redis)[0]["id"] and event["held_ms"] >= 900
    assert [kind for kind in kinds(on_redis) if kind != "waiting"] == ["acquired", "expired", "acquired", "released"]


def test_expired_is_told_long_after(on_redis, client):
    holder = on_redis.hold("n", "--ttl", "2s")
    wipe_out(holder)
    wait_until(lambda: not client.exists("klock:n"), what="the lease has ended")
    assert on_redis.run("run", "-s", "n", "--", "true").status == 0
    only(on_redis, "expired")


def test_renewed_late(on_redis, redis):
    holder = on_redis.hold("n", "--ttl", "4s", "--on-lost", "warn")
    redis.freeze()
    time.sleep(2.5)  # more than half of the lease, less than all
    redis.thaw()
    wait_until(lambda: "renewed_late" in kinds(on_redis), what="the late renewal is told")
    assert 2000 < only(on_redis, "renewed_late")["late_ms"]
    holder.send(signal.SIGTERM)
    holder.wait()


def test_reclaimed(on_redis, client):
    holder = on_redis.hold("n", "--ttl", "1s", "--on-gone", "reclaim")
    client.delete("klock:n")
    wait_until(lambda: "reclaimed" in kinds(on_redis), what="it is taken back")
    holder.send(signal.SIGTERM)
    holder.wait()
    assert kinds(on_redis) == ["acquired", "reclaimed", "released"]


def test_readers_and_slots_tell_their_mode(store):
    store.run("run", "-s", "n", "--", "true")
    store.run("run", "--slots", "3", "n", "--", "true")
    assert [event["mode"] for event in events_of(store)] == ["shared"] * 2 + ["slots"] * 2
    assert events_of(store)[-1]["slots"] == 3


def test_a_cooldown_ends_the_hold(store):
    store.run("run", "--min-hold", "60s", "n", "--", "true")
    store.run("force-release", "--yes", "--now", "n")
    assert kinds(store)[:2] == ["acquired", "released"]


def test_names_patterns_keys_and_times(store):
    for name in ("a:1", "a:2", "b:1"):
        store.run("run", name, "--", "true")
    assert {event["name"] for event in events_of(store, "a:*")} == {"a:1", "a:2"}
    assert len(events_of(store, "*")) == 6
    assert store.run("log", "--key", "klock:b:1").out.count("b:1") == 2
    assert store.run("log", "--since", "1h").out.count("released") == 3
    assert store.run("log", "--since", "0").out == ""
    for words in (["--since", "soon"], ["a", "b"], ["--timeline", "--json"], ["--key", "k", "n"]):
        assert store.run("log", *words).status == 64, words


def test_nothing_has_happened(store):
    assert store.run("log").status == 0 and store.run("log", "--timeline").out == ""


def test_follow_goes_on(store):
    store.run("run", "n", "--", "true")
    follower = store.start("log", "--follow", "--json")
    wait_until(lambda: follower.out.count("released") == 1, what="what was before")
    store.run("run", "n", "--", "true")
    wait_until(lambda: follower.out.count("released") == 2, what="what comes after")
    follower.send(signal.SIGTERM)
    follower.wait()
    assert follower.out.count("\n") == 4


def test_follow_outlasts_a_restart_of_the_server(on_redis, redis):
    follower = on_redis.start("log", "-f", "--json")
    on_redis.run("run", "n", "--", "true")
    wait_until(lambda: "released" in follower.out, what="the first run is shown")
    redis.kill()
    wait_until(lambda: "trying again" in follower.err, what="it is told")
    redis.start()
    on_redis.run("run", "m", "--", "true")
    wait_until(lambda: '"m"' in follower.out, what="it goes on")
    follower.send(signal.SIGTERM)
    follower.wait()


def test_text_is_safe_for_a_terminal(store):
    store.run("run", "-m", "a\x1b[31mred\nline", "n", "--", "true")
    for options in ((), ("--json",), ("--timeline",)):
        out = store.run("log", *options).out
        assert "\x1b" not in out
    assert store.run("log").out.count("\n") == 2


def test_timeline(store):
    holder = store.hold("n", command="while ! test -e go; do sleep 0.02; done")
    waiter = store.queue("n", 1, "sh", "-c", "sleep 0.2; exit 1")[0]
    store.let("go")
    holder.wait()
    waiter.wait()
    lines = store.run("log", "--timeline", env={"COLUMNS": "100"}).out.splitlines()
    assert lines[1] == "n" and all(len(line) <= 100 for line in lines[:4])
    first, second = lines[2], lines[3]
    assert f"pid {holder.pid} " in first or "pid" in first
    assert "=" in first and first.rstrip().endswith("|") and "." in second and second.rstrip().endswith("|")
    assert second.index(".") < second.index("=")


def test_what_one_may_not_write_does_not_harm(make_klock, redis, client):
    client.execute_command("ACL", "SETUSER", "batch", "on", ">pw", "~klock:*", "~{klock:n}:*", "&{klock:*",
                           "+@all", "-@dangerous")
    store = make_klock(redis.url.replace("redis://", "redis://batch:pw@"))
    holder = store.hold("n", "--ttl", "2s")
    assert client.exists("klock:n") and not client.exists("{klock:}:events")
    holder.send(signal.SIGTERM)
    holder.wait()
    done = store.run("doctor")
    assert "{klock:}:events" in done.out, done.out


def test_stream_is_bounded_and_expires(on_redis, client):
    pipe = client.pipeline()
    for _ in range(12000):
        pipe.xadd("{klock:}:events", {"event": "nonsense"})
    pipe.execute()
    on_redis.run("run", "n", "--", "true")
    assert client.xlen("{klock:}:events") < 10500
    assert 0 < client.ttl("{klock:}:events") <= 30 * 86400
    assert kinds(on_redis) == ["acquired", "released"]


def test_local_file_is_bounded(on_local, local_directory):
    log = local_directory / "events.log"
    on_local.run("run", "n", "--", "true")
    line = log.read_text().splitlines()[0] + "\n"
    log.write_text(line * (2 * 1024 * 1024 // len(line) + 1))
    on_local.run("run", "m", "--", "true")
    assert sorted(path.name for path in local_directory.glob("[!.]*")) == ["events.log", "events.log.1", "statistics"]
    assert [event["name"] for event in events_of(on_local, "m")] == ["m", "m"]
    assert log.stat().st_size < 10000


def test_local_damage_hides_no_more_than_itself(on_local, local_directory):
    on_local.run("run", "n", "--", "true")
    with open(local_directory / "events.log", "a", encoding="ascii") as log:
        log.write('{"event":"acquired"}\nnonsense\n{"half\n')
    on_local.run("run", "n", "--", "true")
    assert kinds(on_local) == ["acquired", "released"] * 2


def test_local_log_of_the_default_directory_is_in_the_state_directory(make_klock, tmp_path):
    store = make_klock()
    state = tmp_path / "state"
    if os.geteuid() == 0:
        return  # /var/lib/klock belongs to the host
    store.run("run", "n", "--", "true", env={"XDG_STATE_HOME": str(state)})
    assert (state / "klock/events.log").exists()


def test_local_log_that_cannot_be_written_does_not_harm(on_local, local_directory):
    (local_directory / "events.log").mkdir()
    done = on_local.run("run", "n", "--", "true")
    assert (done.status, done.err) == (0, "")
    assert "events.log" in on_local.run("run", "-v", "n", "--", "true").err


def test_audit_file_has_the_same(store, tmp_path):
    audit = tmp_path / "audit.jsonl"
    store.run("run", "--audit-file", str(audit), "n", "--", "sh", "-c", "exit 4")
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert [line["event"] for line in lines] == ["acquired", "released"]
    assert lines[1]["reason"] == "exit 4" and lines[0]["store"].split(":")[0] in ("local", "redis")
    assert stat.S_IMODE(audit.stat().st_mode) & 0o007 == 0
    assert [line["id"] for line in lines] == [event["id"] for event in events_of(store)]


def test_audit_file_of_many_survives_a_rotation(store, tmp_path):
    audit = tmp_path / "audit.jsonl"
    loops = [store.start_program("sh", "-c", f"for i in 1 2 3 4 5 6 7 8 9 10; do "
                                 f"{store.path} run --audit-file {audit} n{n} -- true || exit; done")
             for n in range(4)]
    wait_until(lambda: audit.exists() and audit.stat().st_size > 2000, what="some lines")
    audit.rename(tmp_path / "audit.1")
    assert [loop.wait(60) for loop in loops] == [0] * 4
    lines = [json.loads(line) for path in (tmp_path / "audit.1", audit) if path.exists()
             for line in path.read_text().splitlines()]
    assert len(lines) == 80


def test_audit_file_that_cannot_be_written_is_told_and_does_no_harm(store, tmp_path):
    done = store.run("run", "--audit-file", str(tmp_path / "no/such/file"), "n", "--", "true")
    assert done.status == 0 and "audit file" in done.err


def test_audit_to_a_socket_of_syslog(store, tmp_path):
    path = tmp_path / "log.socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as syslog:
        syslog.bind(str(path))
        syslog.settimeout(10 * SLOW)
        store.run("run", "--audit-file", str(path), "n", "--", "true")
        first, second = syslog.recv(8192).decode(), syslog.recv(8192).decode()
    assert first.startswith("<30>klock[") and json.loads(first.split("]: ", 1)[1])["event"] == "acquired"
    assert json.loads(second.split("]: ", 1)[1])["event"] == "released"


def test_audit_file_tells_of_a_loss_without_contact(on_redis, redis, tmp_path):
    audit = tmp_path / "audit.jsonl"
    holder = on_redis.hold("n", "--ttl", "1s", "--audit-file", str(audit))
    redis.freeze()
    assert holder.wait() == 79
    redis.thaw()
    assert [json.loads(line)["event"] for line in audit.read_text().splitlines()] == ["acquired", "lost"]


def test_the_log_of_many_is_whole(store):
    loop = f"for i in 1 2 3 4 5; do {store.path} run n -- true || exit; done"
    loops = [store.start_program("sh", "-c", loop) for _ in range(4)]
    assert [one.wait(60) for one in loops] == [0] * 4
    events = events_of(store)
    for kind in ("acquired", "released"):
        assert len({event["id"] for event in events if event["event"] == kind}) == 20, kind
    assert len([event for event in events if event["event"] in ("acquired", "released")]) == 40
    order = [event["event"] for event in events if event["event"] in ("acquired", "released")]
    assert store.url.startswith("local:") or order == ["acquired", "released"] * 20


def test_a_closed_pipe_ends_it(store):
    store.run("run", "n", "--", "true")
    done = subprocess.run(["sh", "-c", f"{store.path} log | head -n 1"], env=store.env, capture_output=True,
                          timeout=20, check=False)
    assert done.stdout.count(b"\n") == 1 and done.stderr == b""


def test_a_limit_of_file_sizes_is_no_signal_to_the_command(store, tmp_path):
    audit = tmp_path / "audit.jsonl"
    audit.write_text("x" * 10000)
    script = f'ulimit -f 1; {store.path} run --audit-file {audit} n -- sh -c "exit 3"'
    done = store.start_program("bash", "-c", script)
    assert done.wait() == 3 and "audit file" in done.err


def test_a_joined_hold_ends_with_the_last_that_has_joined(store):
    inner = f'"{store.path}" run n -- sh -c "echo in > in; while ! test -e go; do sleep 0.02; done"'
    outer = store.start("run", "n", "--", "sh", "-c", f"{inner} & while ! test -e in; do sleep 0.02; done")
    assert outer.wait() == 0
    assert kinds(store) == ["acquired"], "it is still held"
    store.let("go")
    wait_until(lambda: len(kinds(store)) > 1, what="the end is told")
    assert kinds(store) == ["acquired", "released"]
    assert only(store, "released")["id"] == only(store, "acquired")["id"]


def test_a_forced_end_of_a_joined_hold(store):
    inner = f'"{store.path}" run n -- sh -c "echo in > in; exec sleep 1000"'
    outer = store.start("run", "n", "--", "sh", "-c", f"{inner} & while ! test -e in; do sleep 0.02; done")
    assert outer.wait() == 0
    assert store.run("force-release", "--yes", "--reason", "stuck", "n", timeout=30).status == 0
    wait_until(lambda: len(kinds(store)) > 1, what="the end is told")
    assert kinds(store) == ["acquired", "forced"] and only(store, "forced")["reason"] == "stuck"


def test_a_loss_without_contact_is_told_once(on_redis):
    holder = on_redis.hold("n", "--ttl", "1s")
    holder.send(signal.SIGSTOP)
    time.sleep(1.5)  # the guard ends the command in that time
    holder.send(signal.SIGCONT)
    assert holder.wait() == 79
    assert on_redis.run("run", "n", "--", "true").status == 0
    assert kinds(on_redis) == ["acquired", "lost", "acquired", "released"]
    assert only(on_redis, "lost")["held_ms"] > 0


def test_a_loss_that_was_found_out_is_no_expiry_as_well(on_redis, client):
    holder = on_redis.hold("n", "--ttl", "1s")
    client.delete("klock:n")
    assert holder.wait() == 79
    assert on_redis.run("run", "n", "--", "true").status == 0
    assert kinds(on_redis) == ["acquired", "lost", "acquired", "released"]


def test_an_expired_lease_was_held_until_it_ended(on_redis, client):
    wipe_out(on_redis.hold("n", "--ttl", "2s"))
    wait_until(lambda: not client.exists("klock:n"), what="the lease has ended")
    time.sleep(1.5)  # nobody comes
    on_redis.run("run", "n", "--", "true")
    assert only(on_redis, "expired")["held_ms"] < 2000 + 1400 * SLOW


def test_the_end_of_a_cooldown_by_force_is_told_too(store):
    store.run("run", "--min-hold", "60s", "n", "--", "true")
    assert store.run("force-release", "--yes", "--now", "--reason", "why", "n").status == 0
    assert kinds(store) == ["acquired", "released", "forced"]
    event = only(store, "forced")
    assert event["reason"] == "why" and "held_ms" not in event


def test_release_by_token_is_the_reason(store):
    holder = store.hold("n", command='echo $KLOCK_TOKEN > token; exec sleep 1000')
    wait_until(lambda: os.path.exists(os.path.join(store.directory, "token")), what="the token")
    assert store.run("release", "--token-file", "token", "n", timeout=20).status == 0
    assert holder.wait() == 79
    assert only(store, "released")["reason"] == "klock release"


def test_skipped_by_a_check(store):
    assert store.run("run", "--unless", "true", "n", "--", "false").status == 0
    assert "--unless" in only(store, "released")["reason"]


def test_audit_file_of_the_one_who_forces(store, tmp_path):
    audit = tmp_path / "audit.jsonl"
    store.hold("n")
    assert store.run("force-release", "--audit-file", str(audit), "--yes", "--reason", "x", "n").status == 0
    (line,) = [json.loads(line) for line in audit.read_text().splitlines()]
    assert line["event"] == "forced" and line["reason"] == "x"
