# SPDX-License-Identifier: MIT
"""klock list: every lock that is held or waited for, quickly, however large the database."""
import json

import pexpect
import pytest
from support import many
from support.proc import SLOW, wait_until


def test_nothing_to_show_is_0_and_silent(every_store):
    done = every_store.run("list")
    assert (done.status, done.out, done.err) == (0, "", "")
    assert json.loads(every_store.run("list", "--json").out) == []


def test_shows_what_is_held_sorted_by_name(every_store):
    holders = [every_store.hold(name) for name in ("b", "a", "c:d")]
    every_store.queue("a", 1)
    done = every_store.run("list")
    lines = done.out.splitlines()
    assert done.status == 0 and [line.split()[0] for line in lines[1:]] == ["a", "b", "c:d"]
    assert str(holders[0].pid) in done.out
    states = json.loads(every_store.run("list", "--json").out)
    shown = [(s["name"], s["state"], len(s["waiters"])) for s in states]
    assert shown == [("a", "held", 1), ("b", "held", 0), ("c:d", "held", 0)]


@pytest.mark.parametrize("pattern, expected", [
    ("a*", ["a1", "a2"]), ("*2", ["a2", "b2"]), ("?1", ["a1"]), ("[b]2", ["b2"]), ("a1", ["a1"]), ("x*", []), ("a", [])])
def test_patterns(store, pattern, expected):
    for name in ("a1", "a2", "b2"):
        store.hold(name)
    done = store.run("list", "--names", pattern)
    assert done.status == 0 and done.out.split() == expected


def test_released_locks_are_gone_from_the_list(every_store):
    every_store.run("run", "n", "--", "true")
    assert every_store.run("list").out == ""


def test_lock_of_a_dead_holder_leaves_the_list(on_redis, client):
    on_redis.hold("n", "--ttl", "1s")
    client.delete("klock:n")
    assert on_redis.run("list").out == ""


def test_prefix_bounds_the_list(on_redis):
    on_redis.hold("n")
    on_redis.hold("m", "--prefix", "other:")
    assert on_redis.run("list", "--names").out == "n\n"
    assert on_redis.run("list", "--names", "--prefix", "other:").out == "m\n"


def test_cooldown_is_listed(store):
    store.run("run", "--min-hold", "30s", "n", "--", "true")
    assert json.loads(store.run("list", "--json").out)[0]["state"] == "cooldown"


def test_a_million_other_keys_cost_nothing(make_klock, make_redis):
    server = make_redis("--enable-debug-command", "yes")
    klock = make_klock(server.url)
    server.client(socket_timeout=60).execute_command("DEBUG", "POPULATE", "1000000", "other", "1")
    klock.hold("n")
    done = klock.run("list", "--names")
    assert done.out == "n\n" and done.seconds < 0.2 * SLOW
    with server.monitor() as monitor:
        klock.run("list")
        assert not [line for line in monitor.settle(server) if '"scan"' in line.lower() or '"keys"' in line.lower()]


def test_ten_thousand_locks(store, request):
    def listed(*words):
        return store.run("list", "--store-timeout", "60s", *words, timeout=60)

    assert store.run("acquire", "--for", "1h", "-m", "why", many.SEED).status == 0
    if store.url.startswith("local:"):
        many.copy_in(request.getfixturevalue("local_directory"), 10_000)
        done = listed("--json")
    else:
        client = request.getfixturevalue("client")
        many.copy_on_redis(client, 10_000)
        client.config_resetstat()
        done = listed("--json")
        sent = set(client.info("commandstats"))
        assert "cmdstat_zrange" in sent and not sent & {"cmdstat_keys", "cmdstat_scan", "cmdstat_eval", "cmdstat_evalsha"}
    assert done.status == 0 and done.err == ""
    states = json.loads(done.out)
    assert [state["name"] for state in states] == many.names(10_000)
    assert {(state["state"], len(state["holders"]), state["holders"][0]["message"]) for state in states} == {("held", 1, "why")}
    assert listed("--names", "n0123?").out.split() == [f"n0123{digit}" for digit in range(10)]
    assert listed("--names").out.split() == many.names(10_000)
    assert listed("--names", "--older-than", "1d").out == ""


def held_ms(store, name, pid):
    return next(holder["held_ms"] for holder in store.state(name)["holders"] if holder["pid"] == pid)


@pytest.fixture
def old_and_new(store):
    """(the store; the holder of `b-old`; that of `b-new`, which is younger; what lists those between the two ages). Each
    look takes a while, so that one may come too late to tell them apart; another one will not."""
    old = store.hold("b-old", "-s")
    wait_until(lambda: held_ms(store, "b-old", old.pid) >= 2000 * SLOW, what="old enough")
    new = store.hold("b-new")

    def between(*words):
        ages = [held_ms(store, "b-old", old.pid), held_ms(store, "b-new", new.pid)]
        return store.run("list", "--older-than", f"{sum(ages) // 2}ms", *words)

    return store, old, new, between


def test_older_than(old_and_new):
    store, old, _, between = old_and_new
    wait_until(lambda: between("--names").out == "b-old\n", what="the old one alone")
    wait_until(lambda: between("--names", "b-*").out == "b-old\n", what="the old one alone")
    assert between("--names", "a-*").out == ""
    shown = wait_until(lambda: [s for s in [json.loads(between("--json").out)] if len(s) == 1], what="the old one alone")[0]
    assert [holder["pid"] for holder in shown[0]["holders"]] == [old.pid]
    done = store.run("list", "--older-than", "1h")
    assert (done.status, done.out, done.err) == (0, "", "")
    assert json.loads(store.run("list", "--older-than", "1h", "--json").out) == []
    assert store.run("list", "--names", "--older-than", "0").out == "b-new\nb-old\n"


def test_older_than_shows_of_several_holders_the_old_ones(old_and_new):
    store, old, _, between = old_and_new
    store.hold("b-old", "-s")
    shown = wait_until(lambda: [s for s in [json.loads(between("--json", "b-old").out)] if len(s[0]["holders"]) == 1],
                       what="the old reader alone")[0]
    assert [holder["pid"] for holder in shown[0]["holders"]] == [old.pid]
    assert len(json.loads(store.run("list", "--json", "--older-than", "0", "b-old").out)[0]["holders"]) == 2


def test_older_than_leaves_out_what_nobody_holds(store):
    store.run("run", "--min-hold", "1h", "n", "--", "true")
    assert store.run("list", "--names").out == "n\n"
    done = store.run("list", "--names", "--older-than", "0", "-v")
    assert done.out == "" and "unknown age" not in done.err


def test_older_than_counts_what_is_of_unknown_age(on_redis, client):
    for name in ("a", "b"):
        client.set(f"klock:{name}", "foreign")
        on_redis.queue(name, 1)
    on_redis.hold("c")
    silent = on_redis.run("list", "--names", "--older-than", "0")
    assert (silent.status, silent.out, silent.err) == (0, "c\n", "")
    assert "2 holds of unknown age left out" in on_redis.run("list", "--names", "--older-than", "0", "-v").err
    assert "1 hold of unknown age left out" in on_redis.run("list", "--names", "--older-than", "0", "-v", "a*").err
    for quiet in ([], ["-q"]):
        tty = pexpect.spawn(on_redis.path, ["list", "--older-than", "0", *quiet], env=on_redis.env, timeout=10 * SLOW,
                            encoding="utf-8")
        tty.expect(pexpect.EOF)
        tty.close()
        assert tty.exitstatus == 0 and ("2 holds of unknown age left out" in tty.before) == (not quiet)


@pytest.mark.parametrize("age", ["", "x", "-1", "400d", "1 h"])
def test_older_than_what(store, age):
    done = store.run("list", "--older-than", age)
    assert done.status == 64 and done.out == "" and "--older-than" in done.err
