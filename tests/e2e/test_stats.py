# SPDX-License-Identifier: MIT
"""How locks are used: counted by group, in memory that does not grow with the number of names."""
import json
import signal

from prometheus_client.parser import text_string_to_metric_families
from support.proc import SLOW, wait_until, wipe_out


def groups_of(store, *words):
    done = store.run("stats", "--json", *words)
    assert done.status == 0, done.err
    return {group["group"]: group for group in json.loads(done.out)}


def test_nothing_has_been_counted(store):
    assert store.run("stats").out == "" and groups_of(store) == {}


def test_runs_are_counted_by_group(store):
    for name in ("a:1", "a:2", "b"):
        store.run("run", name, "--", "true")
    store.run("run", "--group", "b", "a:3", "--", "true")
    groups = groups_of(store)
    assert {name: group["acquired"] for name, group in groups.items()} == {"a": 2, "b": 2}
    assert groups["a"]["released"] == 2 and groups["a"]["held"]["count"] == 2 and groups["a"]["conflicts"] == 0
    assert list(groups_of(store, "a*")) == ["a"] and list(groups_of(store, "x")) == []
    assert groups["a"]["ttl_ms"] == (None if store.url.startswith("local:") else 15000)
    text = store.run("stats").out
    assert "a: 2 acquired since" in text and "held" in text


def test_each_kind_is_counted(store):
    holder = store.hold("n", command="while ! test -e go; do sleep 0.02; done")
    assert store.run("run", "-n", "n", "--", "true").status == 75
    assert store.run("run", "-w", "0.2", "n", "--", "true").status == 75
    waiter = store.queue("n", 1)[0]
    waiter.send(signal.SIGTERM)
    waiter.wait()
    waiter = store.queue("n", 1)[0]
    store.let("go")
    assert holder.wait() == waiter.wait() == 0
    for _ in range(2):
        store.run("run", "--once", "k", "n", "--", "true")
    holder = store.hold("n", "--ttl", "60s")
    store.run("force-release", "--yes", "--now", "n")
    holder.wait()
    group = groups_of(store)["n"]
    expected = {"acquired": 4, "released": 3, "forced": 1, "timed_out": 2, "gave_up": 1, "skipped": 1, "waiting": 3,
                "conflicts": 4, "attempts": 8, "lost": 0, "expired": 0}
    assert {name: group[name] for name in expected} == expected
    assert group["waited"]["count"] == 4 and group["held"]["count"] == 4
    assert group["waited"]["max_ms"] > 0 and group["held"]["p50_ms"] <= group["held"]["max_ms"]


def test_an_expired_lease_is_counted_once(on_redis):
    wipe_out(on_redis.hold("n", "--ttl", "2s"))
    assert on_redis.run("run", "n", "--", "true", timeout=20).status == 0
    group = groups_of(on_redis)["n"]
    assert (group["acquired"], group["expired"], group["released"]) == (2, 1, 1)


def test_leases_that_nobody_renews_are_told_apart(store):
    script = f'eval "$({store.path} acquire --no-keeper --ttl 60s n)" && {store.path} release n'
    assert store.start_program("sh", "-c", script).wait() == 0
    group = groups_of(store)["n"]
    assert group["held_unrenewed"]["count"] == 1 and group["held"]["count"] == 0


def test_memory_does_not_grow_with_the_number_of_names(on_redis, client):
    def used():
        return sum(client.memory_usage(key) or 0 for key in client.keys("{klock:}:*"))

    def run_many(first, count):
        loop = f'i={first}; while [ $i -lt {first + count} ]; do "$0" run job-$i -- true || exit; i=$((i+1)); done'
        assert on_redis.start_program("sh", "-c", loop, on_redis.path).wait(120) == 0

    client.zadd("{klock:}:groups", {f"{{klock:}}:stats:g{number}": 1e15 for number in range(490)})
    run_many(0, 30)
    before, keys = used(), len(client.keys("{klock:}:*"))
    run_many(100, 100)
    assert len(client.keys("{klock:}:*")) == keys, "20 of them were counted for others"
    assert used() - before < 100 * 1000, "the log, which is bounded"


def test_many_groups_become_others(on_redis, client):
    stats = {f"{{klock:}}:stats:g{number}": 1e15 for number in range(500)}
    client.zadd("{klock:}:groups", stats)
    on_redis.run("run", "one-more", "--", "true")
    on_redis.run("run", "g7:x", "--", "true")
    groups = groups_of(on_redis)
    assert groups["(other)"]["acquired"] == 1 and groups["g7"]["acquired"] == 1 and "one-more" not in groups


def test_groups_that_are_not_used_make_room(on_redis, client):
    client.zadd("{klock:}:groups", {f"{{klock:}}:stats:g{number}": 1 for number in range(500)})
    on_redis.run("run", "one-more", "--", "true")
    assert groups_of(on_redis)["one-more"]["acquired"] == 1
    assert client.zcard("{klock:}:groups") == 1


def test_every_key_expires(on_redis, client):
    on_redis.run("run", "n", "--", "true")
    for key in ("{klock:}:groups", "{klock:}:stats:n"):
        assert 0 < client.ttl(key) <= 30 * 86400


def test_prometheus(store):
    for _ in range(3):
        store.run("run", "a:1", "--", "true")
    store.run("run", "--group", 'q"\\', "b", "--", "true")
    done = store.run("stats", "--prometheus")
    families = {family.name: family for family in text_string_to_metric_families(done.out)}
    assert families["klock_hold_seconds"].type == "histogram" and families["klock_events"].type == "counter"
    events = {(sample.labels["group"], sample.labels["event"]): sample.value
              for sample in families["klock_events"].samples}
    assert events["a", "acquired"] == 3 and events['q"\\', "released"] == 1
    holds = [sample for sample in families["klock_hold_seconds"].samples if sample.labels["group"] == "a"]
    buckets = [sample.value for sample in holds if sample.name.endswith("_bucket")]
    assert buckets == sorted(buckets) and buckets[-1] == 3
    assert [sample.value for sample in holds if sample.name.endswith("_count")] == [3]
    assert len(done.out.splitlines()) == len(set(done.out.splitlines()))


def test_no_more_than_all_find_it_busy(store):
    holder = store.hold("n", "--once", "k", command="while ! test -e go; do sleep 0.02; done")
    waiters = store.queue("n", 3, options=("--once", "k"))
    store.let("go")
    assert [one.wait() for one in (holder, *waiters)] == [0] * 4
    group = groups_of(store)["n"]
    assert (group["attempts"], group["conflicts"], group["skipped"]) == (4, 3, 3)
    assert "75% found it busy" in store.run("stats").out


def test_the_group_of_the_others_is_shown_once(store):
    store.run("run", "--group", "(other)", "n", "--", "true")
    done = store.run("stats")
    assert done.out.count("(other)") == 1 and done.out.startswith("(other): 1 acquired")


def test_a_group_is_text(store):
    for group in (b"\xff", "a b", "a\nb", "x" * 300):
        assert store.run("run", "--group", group, "n", "--", "true").status == 64, group


def test_keys_of_another_type_do_no_harm(on_redis, client):
    on_redis.run("run", "good", "--", "true")
    client.set("{klock:}:stats:bad", "x")
    client.zadd("{klock:}:groups", {"{klock:}:stats:bad": 1e15})
    assert on_redis.run("run", "bad", "--", "true").status == 0
    assert list(groups_of(on_redis)) == ["good"]
    client.delete("{klock:}:groups")
    client.set("{klock:}:groups", "x")
    client.delete("{klock:}:events")
    client.set("{klock:}:events", "x")
    done = on_redis.run("run", "new", "--", "true")
    assert (done.status, done.err) == (0, "") and not client.exists("{klock:}:stats:new")


def test_contradictions_are_usage_errors(store):
    for words in (["--json", "--prometheus"], ["a", "b"], ["--key", "k"]):
        assert store.run("stats", *words).status == 64, words
    assert store.run("run", "--group", "", "n", "--", "true").status == 64


def test_what_cannot_be_counted_does_no_harm(on_local, local_directory):
    (local_directory / "statistics").mkdir()
    done = on_local.run("run", "n", "--", "true")
    assert (done.status, done.err) == (0, "") and "statistics" in on_local.run("run", "-v", "n", "--", "true").err


def test_a_user_without_rights_gets_locks_and_the_log(make_klock, redis, client):
    client.execute_command("ACL", "SETUSER", "batch", "on", ">pw", "~klock:*", "~{klock:n}:*", "~{klock:}:events",
                           "~{klock:}:index", "&{klock:*", "+@all")
    store = make_klock(redis.url.replace("redis://", "redis://batch:pw@"))
    assert store.run("run", "n", "--", "true").status == 0
    assert client.exists("{klock:}:events") and not client.exists("{klock:}:groups")


def test_damage_is_left_out(on_redis, client):
    on_redis.run("run", "n", "--", "true")
    client.hset("{klock:}:stats:n", mapping={"acquired": "many", "w999": "3", "wx": "4", "": "1", "hmax": "-7"})
    assert groups_of(on_redis)["n"]["acquired"] == 0
    assert on_redis.run("stats").status == 0


def test_local_counts_of_many_at_once(on_local):
    loop = f"for i in 1 2 3 4 5; do {on_local.path} run n -- true || exit; done"
    loops = [on_local.start_program("sh", "-c", loop) for _ in range(4)]
    assert [one.wait(60) for one in loops] == [0] * 4
    wait_until(lambda: groups_of(on_local)["n"]["released"] == 20, timeout=1 * SLOW, what="every run is counted")
