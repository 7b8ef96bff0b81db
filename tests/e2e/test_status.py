# SPDX-License-Identifier: MIT
"""klock status: who holds, who waits, whose it is; and nothing from another host reaches a terminal raw."""
import getpass
import json
import re
import socket
import subprocess

import pytest
from support.proc import wait_until

EVIL = "\x1b]0;owned\x07\r\n\x9b31m‮end"


def test_free_lock_is_1(every_store):
    done = every_store.run("status", "n")
    assert done.status == 1 and done.err == "" and "n: free" in done.out
    state = every_store.state("n")
    assert (state["name"], state["state"], state["holders"], state["waiters"]) == ("n", "free", [], [])


def test_held_lock_is_0_and_tells_everything(every_store):
    holder = every_store.hold("n", "-m", "why", "--ttl", "20s")
    done = every_store.run("status", "n")
    assert done.status == 0 and done.err == ""
    for part in ("n", getpass.getuser(), socket.gethostname(), str(holder.pid), "sh", "why"):
        assert part in done.out, part


def test_json_fields(every_store):  # the documented array
    holder = every_store.hold("n", "-m", "why", "--ttl", "20s")
    every_store.queue("n", 2)
    # On the local store a waiter has its place before its details are there.
    wait_until(lambda: all(waiter["waiting_ms"] is not None for waiter in every_store.state("n")["waiters"]))
    done = every_store.run("status", "--json", "n")
    assert done.status == 0 and done.out.endswith("\n")
    (state,) = json.loads(done.out)
    assert list(state) and set(state) >= {"name", "key", "store", "state", "mode", "slots", "holders", "waiters"}
    assert (state["name"], state["key"], state["state"], state["mode"]) == ("n", "klock:n", "held", "exclusive")
    assert state["slots"] is None and state["store"] == every_store.url
    (held,) = state["holders"]
    assert set(held) >= {"id", "user", "host", "pid", "program", "message", "since", "held_ms", "expires_in_ms", "fence",
                         "foreign"}
    assert (held["user"], held["host"], held["pid"]) == (getpass.getuser(), socket.gethostname(), holder.pid)
    assert (held["program"], held["message"], held["foreign"]) == ("sh", "why", False)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", held["since"]) and held["fence"] > 0
    assert 0 <= held["held_ms"] < 60000
    assert held["expires_in_ms"] is None if every_store.url.startswith("local:") else 0 < held["expires_in_ms"] <= 20000
    assert len(state["waiters"]) == 2
    for waiter in state["waiters"]:
        assert set(waiter) >= {"user", "host", "pid", "mode", "waiting_ms"} and waiter["waiting_ms"] >= 0
    assert state["waiters"][0]["waiting_ms"] >= state["waiters"][1]["waiting_ms"]


def test_id_does_not_give_the_token_away(store):
    holder = store.hold("n", command="echo $KLOCK_TOKEN; exec sleep 1000")
    wait_until(lambda: len(holder.out.split()) == 2)
    token = holder.out.split()[1]
    assert len(store.state("n")["holders"][0]["id"]) < len(token)
    for words in (["status", "n"], ["status", "--json", "n"], ["list"], ["list", "--json"], ["run", "-n", "n", "true"]):
        done = store.run(*words)
        assert token not in done.out + done.err


def test_several_names_and_0_if_one_is_held(store):
    store.hold("b")
    done = store.run("status", "a", "b")
    assert done.status == 0 and "a: free" in done.out and "b" in done.out
    assert [state["name"] for state in json.loads(store.run("status", "--json", "a", "b").out)] == ["a", "b"]
    assert store.run("status", "a", "c").status == 1


def test_without_names_all_that_are_held(store):
    store.hold("one")
    store.hold("two")
    assert [state["name"] for state in json.loads(store.run("status", "--json").out)] == ["one", "two"]


@pytest.mark.parametrize("kind", ["string", "hash", "zset", "list"])
def test_foreign_holders_are_shown_with_no_expiry(on_redis, client, kind):  # R19
    {"string": lambda: client.set("klock:n", "abc"), "hash": lambda: client.hset("klock:n", "uuid:1", 1),
     "zset": lambda: client.zadd("klock:n", {"a": 1}), "list": lambda: client.rpush("klock:n", "a")}[kind]()
    done = on_redis.run("status", "n")
    assert done.status == 0 and "no expiry" in done.out and {"zset": "sorted set"}.get(kind, kind) in done.out
    (held,) = on_redis.state("n")["holders"]
    assert held["foreign"] is True and held["user"] is None and held["expires_in_ms"] is None


def test_foreign_holder_with_an_expiry(on_redis, client):
    client.set("klock:n", "abc", px=50000)
    (held,) = on_redis.state("n")["holders"]
    assert 40000 < held["expires_in_ms"] <= 50000
    assert "abc" in on_redis.run("status", "n").out


def test_foreign_text_is_escaped(on_redis, client):
    client.set("klock:n", EVIL)
    for words in (["status", "n"], ["list"], ["run", "-n", "n", "true"], ["force-release", "--yes", "n"]):
        done = on_redis.run(*words)
        shown = done.out + done.err
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f‮]", shown), (words, shown)
    assert json.loads(on_redis.run("status", "--json", "n").out)


def test_foreign_bytes_that_are_no_utf8(on_redis, client):
    client.set("klock:n", b"\xff\xfe\x80")
    assert on_redis.run("status", "n").status == 0
    assert json.loads(on_redis.run("status", "--json", "n").out)[0]["holders"][0]["foreign"]


def test_messages_with_control_characters_are_escaped(store):
    store.hold("n", "-m", EVIL)
    for words in (["status", "n"], ["list"], ["run", "-n", "n", "true"]):
        done = store.run(*words)
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f‮]", done.out + done.err), words
    assert store.state("n")["holders"][0]["message"] == EVIL


def test_forged_records_break_nothing(on_redis, redis, client):
    """Another host may have written anything into what lies beside the lock."""
    on_redis.hold("n", "--ttl", "60s")
    on_redis.queue("n", 1, options=("--ttl", "60s"))
    for key in [key for key in redis.keys("klock:n") if client.type(key) == "hash"]:
        for field in client.hkeys(key):
            for forged in ("", "{", "1 2 3", '{"pid": [], "user": {}}', "x" * 100_000, EVIL, "1 1 exclusive 0 []"):
                client.hset(key, field, forged)
                for words in (["status", "n"], ["list"], ["run", "-n", "n", "true"], ["status", "--json"]):
                    done = on_redis.run(*words)
                    assert done.status in (0, 75, 77), (key, forged, done.status, done.err)
                    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f‮]", done.out + done.err)


def test_program_is_shown_without_its_arguments(store):
    store.hold("n", command="exec sleep 1000 # --password hunter2")
    assert "hunter2" not in store.run("status", "--json", "n").out


def test_unreachable_and_refused(make_klock, make_redis):
    server = make_redis("--requirepass", "right")
    klock = make_klock(server.url)
    for words in (["status", "n"], ["list"], ["status"]):
        assert klock.run(*words).status == 77
    server.kill()
    for words in (["status", "n"], ["list"], ["status"]):
        done = klock.run(*words)
        assert done.status == 69 and done.err.startswith("klock: ") and done.out in ("", "[]\n")


def test_read_permission_is_enough(make_klock, redis, client, on_redis):
    on_redis.hold("n")
    client.execute_command("ACL", "SETUSER", "viewer", "on", ">pw", "%R~*", "resetchannels", "+@read")
    viewer = make_klock(f"redis://viewer:pw@127.0.0.1:{redis.port}")
    assert viewer.run("status", "n").status == 0 and "n" in viewer.run("list").out


def test_closed_stdout_is_an_error(store):
    store.hold("n")
    for words in ("status n", "list"):
        assert subprocess.run(f"{store.path} {words} >&-", shell=True, env=store.env, stderr=subprocess.DEVNULL,
                              check=False).returncode == 71


def test_full_stdout_is_no_crash(store):
    store.hold("n")
    with open("/dev/full", "wb") as full:
        assert store.run("status", "n", stdout=full).status in (0, 71)
