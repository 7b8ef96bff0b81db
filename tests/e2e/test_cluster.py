# SPDX-License-Identifier: MIT
"""A Redis Cluster: the slot's master is found, and followed when the slot moves or another server takes it over."""
import json
import os
import signal

import pytest
from support import shells
from support.clusters import Cluster, slot_of
from support.contenders import Contenders
from support.ports import free_port
from support.proc import SLOW, wait_until
from support.servers import RedisServer

UNTIL_GO = "while ! test -e go; do sleep 0.02; done"


@pytest.fixture(scope="module")
def common_site(tmp_path_factory):
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.end()


@pytest.fixture
def calm(common_site, make_klock):
    """Of a Cluster to which nothing happens."""
    klock = make_klock(common_site.url)
    yield klock
    for server in common_site.servers[:3]:
        common_site.client(server).flushall()


@pytest.fixture
def site(tmp_path):
    made = Cluster(tmp_path)
    yield made
    made.end()


@pytest.fixture
def store(site, make_klock):  # in this order: the servers must end after the klocks
    return make_klock(site.url)


def events(klock, *arguments):
    return [json.loads(line) for line in klock.run("log", "--json", *arguments).out.splitlines()]


def test_everything_works(calm):
    holder = calm.hold("n", "-m", "weekly")
    assert calm.run("run", "-n", "n", "--", "true").status == 75
    (waiter,) = calm.queue("n", 1)
    state = calm.state("n")
    assert state["holders"][0]["pid"] == holder.pid and len(state["waiters"]) == 1
    assert state["store"].startswith("redis-cluster://127.0.0.1:")
    assert "1" in calm.run("list").out.splitlines()[1].split()
    assert calm.run("force-release", "--yes", "--reason", "stuck", "n").status == 0
    assert holder.wait() == 79 and "stuck" in holder.err and waiter.wait() == 0
    kinds = [event["event"] for event in events(calm, "n")]
    assert kinds.count("acquired") == 2 and "forced" in kinds and "waiting" in kinds
    counted = json.loads(calm.run("stats", "--json", "n").out)[0]
    assert (counted["acquired"], counted["forced"]) == (2, 1)
    assert calm.run("run", "--also", "b", "a", "--", "true").status == 0
    reader = calm.hold("r", "-s")
    assert calm.run("run", "-s", "r", "--", "true").status == 0 and calm.run("run", "-n", "r", "--", "true").status == 75
    reader.send(signal.SIGTERM)
    assert reader.wait() == 143
    assert calm.run("run", "--slots", "2", "s", "--", "true").status == 0
    assert calm.run("run", "--once", "k", "o", "--", "true").status == 0
    assert calm.run("once", "show", "o", "k").status == 0 and calm.run("once", "clear", "o", "k").status == 0
    assert shells.finish(shells.hold(calm, "n")) == 0


def test_names_all_over_the_slots(calm, common_site):
    names = [f"job{number}" for number in range(30)]
    holders = [calm.start("run", name, "--", "sh", "-c", UNTIL_GO) for name in names]
    wait_until(lambda: len(json.loads(calm.run("list", "--json").out or "[]")) == 30, what="all are held")
    shares = [len(common_site.client(server).keys("klock:job*")) for server in common_site.servers[:3]]
    assert sum(shares) == 30 and min(shares) > 0
    listed = json.loads(calm.run("list", "--json").out)
    assert [lock["name"] for lock in listed] == sorted(names)
    states = json.loads(calm.run("status", "--json", *names).out)
    assert {state["state"] for state in states} == {"held"}
    calm.let("go")
    assert {holder.wait() for holder in holders} == {0}
    released = [event["name"] for event in events(calm, "--since", "1h") if event["event"] == "released"]
    assert sorted(released) == sorted(names)


def test_hash_tags(calm, common_site):
    with_tag = "a{tag}b"
    holder = calm.hold(with_tag)
    assert calm.run("run", "-n", with_tag, "--", "true").status == 75
    slots = {slot_of(key) for key in common_site.keys("klock:a*")}
    assert slots == {slot_of("tag")} and holder.status is None
    for broken in ("a}b", "a{b", "{}x"):
        assert calm.run("run", broken, "--", "true").status == 64
    # A key of somebody else's choice.
    done = calm.run("run", "--key", "x}y", "n", "--", "touch", "ran")
    assert done.status in (64, 77) and "hash tag" in done.err
    assert not os.path.exists(os.path.join(calm.directory, "ran"))


def test_another_prefix(calm):
    for prefix in ("", "team:", "}"):
        assert calm.run("run", "--prefix", prefix, "n", "--", "true").status in (0, 64)
    assert calm.run("run", "--prefix", "", "p", "--", "true").status == 0
    assert [event["name"] for event in events(calm, "--prefix", "")] == ["n", "n", "p", "p"]


def test_any_server_will_do(calm, common_site):
    """A replica too."""
    for server in common_site.servers:
        url = f"redis-cluster://127.0.0.1:{server.port}"
        for name in ("a", "b", "c"):
            assert calm.run("run", "--url", url, name, "--", "true").status == 0
    assert len(events(calm, "a")) == 12


def test_one_server_of_a_cluster_without_saying_so(calm, common_site):
    url = f"redis://127.0.0.1:{common_site.servers[0].port}"
    runs = [calm.run("run", "--url", url, name, "--", "true") for name in ("a", "b", "c", "d", "e")]
    refused = [run for run in runs if run.status]
    assert refused and all(run.status in (77, 78) and "redis-cluster://" in run.err for run in refused)


def test_what_is_no_cluster(make_klock, tmp_path):
    place = tmp_path / "alone"
    place.mkdir()
    server = RedisServer(place)
    try:
        klock = make_klock(f"redis-cluster://127.0.0.1:{server.port}")
        for words in (("run", "n", "--", "touch", "ran"), ("status", "n"), ("list",), ("doctor",)):
            done = klock.run(*words)
            assert done.status == 78 and "no Redis Cluster" in done.err, words
        assert not os.path.exists(os.path.join(klock.directory, "ran")) and server.keys(":fence") == []
    finally:
        server.kill()


def test_a_stranger_among_the_hosts(calm, common_site, tmp_path):
    """Two who are given the same hosts must not meet in different places."""
    place = tmp_path / "stranger"
    place.mkdir()
    stranger = RedisServer(place)
    try:
        hosts = [f"127.0.0.1:{server.port}" for server in (stranger, *common_site.servers)]
        url = "redis-cluster://" + ",".join(hosts)
        done = calm.run("run", "--url", url, "n", "--", "touch", "ran")
        assert done.status == 78 and "no Redis Cluster" in done.err
        assert not os.path.exists(os.path.join(calm.directory, "ran"))
        wait_until(lambda: not stranger.keys(":fence"), what="nothing is left there")
        # Last, it is never asked.
        assert calm.run("run", "--url", url.replace(hosts[0] + ",", "") + "," + hosts[0], "n", "--", "true").status == 0
    finally:
        stranger.kill()


def test_a_host_that_has_left_the_cluster(calm, common_site, tmp_path):
    """It belongs to one of its own, where nobody has the slots."""
    place = tmp_path / "alone"
    place.mkdir()
    alone = RedisServer(place, "--cluster-enabled", "yes", "--cluster-port", str(free_port()))
    try:
        url = f"redis-cluster://127.0.0.1:{alone.port}," + common_site.url.split("//")[1]
        holder = calm.hold("n", "--url", url)
        assert calm.run("status", "--url", url, "n").status == 0
        assert "n" in calm.run("list", "--url", url).out
        assert "nobody has" not in calm.run("doctor", "--url", url).out
        assert holder.status is None
    finally:
        alone.kill()


def test_databases_and_bad_urls(on_local):
    for url in ("redis-cluster://h:1/1", "redis-cluster://", "redis-cluster://h:0", "redis-cluster://a,,b"):
        assert on_local.run("run", "--url", url, "n", "--", "true").status == 64


def test_the_login(make_klock, tmp_path):
    made = Cluster(tmp_path, replicas=False, password="geheim")
    try:
        klock = make_klock(made.url.replace(":geheim@", ""))
        refused = klock.run("run", "n", "--", "true")
        assert refused.status == 77 and "login" in refused.err
        klock.env["REDISCLI_AUTH"] = "geheim"
        for name in ("a", "b", "c"):
            assert klock.run("run", name, "--", "true").status == 0
        holder = klock.hold("a")
        assert klock.state("a")["state"] == "held" and "geheim" not in klock.run("run", "-v", "b", "--", "true").err
        holder.send(signal.SIGTERM)
        assert holder.wait() == 143
    finally:
        made.end()


def test_a_user_with_few_rights(make_klock, tmp_path):
    made = Cluster(tmp_path)
    try:
        klock = make_klock(made.url)
        rights = "on >geheim ~klock:* ~{klock:* &{klock:* +@read +@write +@scripting +@transaction +@pubsub +@connection +time -@dangerous"
        for server in made.servers:
            made.client(server).execute_command("ACL", "SETUSER", "batch", *rights.split())
        klock.env["KLOCK_URL"] = made.url.replace("redis-cluster://", "redis-cluster://batch:geheim@")
        holder = klock.hold("n", "--ttl", "30s", command=UNTIL_GO)
        (waiter,) = klock.queue("n", 1)
        held = [klock.start("run", name, "--", "sh", "-c", UNTIL_GO) for name in ("a", "b", "c")]
        wait_until(lambda: len(json.loads(klock.run("list", "--json").out or "[]")) == 4, what="all are held")
        unknown = [item for item in json.loads(klock.run("doctor", "--json").out) if item["subject"] == "cluster"]
        assert unknown[0]["severity"] == "unknown" and "+cluster|slots" in unknown[0]["remedy"]
        old = made.master_of("klock:n")
        made.await_replica(old)
        old.kill()
        klock.let("go")
        assert holder.wait(60) == 0 and waiter.wait(60) == 0 and [run.wait(60) for run in held] == [0, 0, 0]
    finally:
        made.end()


def test_the_doctor(calm, common_site):
    found = {(item["subject"], item["severity"]) for item in json.loads(calm.run("doctor", "--json").out)}
    assert ("cluster", "ok") in found and ("persistence", "warning") in found and ("permissions", "ok") in found
    client = common_site.client(common_site.servers[1])
    client.config_set("maxmemory", "100mb")
    client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        report = calm.run("doctor")
        (line,) = [line for line in report.out.splitlines() if " eviction " in line]
        assert report.status == 2 and line.startswith("DANGER") and f":{common_site.servers[1].port}:" in line
    finally:
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", "0")


@pytest.mark.parametrize("how", ["kill", "freeze"])
def test_acquire_follows_a_failover(store, site, how):
    old = site.master_of("klock:n")
    getattr(old, how)()
    done = store.run("run", "--store-timeout", "60s", "n", "--", "true", timeout=120)
    assert done.status == 0 and site.master_of("klock:n", but=old)


@pytest.mark.parametrize("how", ["kill", "freeze"])
def test_a_hold_follows_a_failover(store, site, how):
    old = site.master_of("klock:n")
    holder = store.hold("n", "--ttl", "30s")
    site.await_replica(old)
    getattr(old, how)()
    new = site.master_of("klock:n", but=old)
    wait_until(lambda: holder.status is not None or site.client(new).pttl("klock:n") > 25000, timeout=60,
               what="renewed on the new master")
    assert holder.status is None, holder.err
    assert store.run("run", "-n", "--store-timeout", "30s", "n", "--", "true", timeout=60).status == 75
    holder.send(signal.SIGTERM)
    assert holder.wait(60) == 143 and store.is_free("n")


@pytest.mark.parametrize("how", ["kill", "freeze"])
def test_waiters_follow_a_failover(store, site, how):
    old = site.master_of("klock:n")
    holder = store.hold("n", "--ttl", "30s", command=UNTIL_GO)
    waiters = store.queue("n", 2, "sh", "-c", "echo {} >>order")
    site.await_replica(old)
    getattr(old, how)()
    new = site.client(site.master_of("klock:n", but=old))
    # One that has not reconnected yet when it is its turn is passed over.
    wait_until(lambda: len(new.pubsub_channels("*wake:*")) == 3, timeout=60, what="the holder and both waiters are there")
    store.let("go")
    assert holder.wait(60) == 0
    assert [waiter.wait(60) for waiter in waiters] == [0, 0]
    with open(os.path.join(store.directory, "order"), encoding="ascii") as order:
        assert order.read() == "0\n1\n"


def test_a_planned_failover(store, site):
    old = site.master_of("klock:n")
    holder = store.hold("n", "--ttl", "10s", command=UNTIL_GO)
    (waiter,) = store.queue("n", 1)
    site.client(site.replica_of(old)).execute_command("CLUSTER", "FAILOVER")
    site.master_of("klock:n", but=old)
    assert store.run("run", "-w", str(12 * SLOW), "n", "--", "true", timeout=60).status == 75, "longer than the lease"
    assert holder.status is None and waiter.status is None
    store.let("go")
    assert holder.wait() == 0 and waiter.wait(30) == 0


def test_a_release_follows_a_failover(store, site):
    old = site.master_of("klock:n")
    holder = store.hold("n", "--once", "k", "--ttl", "60s", command=UNTIL_GO)
    site.await_replica(old)
    old.kill()
    store.let("go")
    assert holder.wait(60) == 0 and "could not be confirmed" not in holder.err
    assert store.is_free("n") and store.run("once", "show", "n", "k").status == 0


def test_a_slot_moves_while_its_lock_is_held_and_waited_for(store, site):
    source, slot = site.master_of("klock:n"), slot_of("klock:n")
    target = next(server for server in site.servers[:3] if server is not source)
    holder = store.hold("n", "--ttl", "10s", command=UNTIL_GO)
    waiters = store.queue("n", 3, "sh", "-c", "echo {} >>order")
    site.begin_move(slot, source, target)
    site.move_keys(slot, source, target)
    site.end_move(slot, source, target)
    wait_until(lambda: len(site.client(target).pubsub_channels("*wake:*")) == 4, timeout=30, what="all have followed")
    assert store.run("run", "-w", str(12 * SLOW), "n", "--", "true", timeout=60).status == 75, "longer than the lease"
    store.let("go")
    assert holder.wait() == 0 and [waiter.wait(30) for waiter in waiters] == [0, 0, 0]
    assert not holder.err and not any(waiter.err for waiter in waiters)
    with open(os.path.join(store.directory, "order"), encoding="ascii") as order:
        assert order.read() == "0\n1\n2\n"


@pytest.mark.parametrize("where", ["source", "target"])
def test_a_slot_is_half_moved_for_longer_than_the_lease(store, site, where):
    """Its keys lie on two servers, so that no script over all of them runs."""
    source, slot = site.master_of("klock:n"), slot_of("klock:n")
    target = next(server for server in site.servers[:3] if server is not source)
    holder = store.hold("n", "--ttl", "10s", command=UNTIL_GO)
    site.begin_move(slot, source, target)
    moved = ["klock:n"] if where == "target" else ["{klock:n}:holders"]
    site.move_keys(slot, source, target, *moved)
    late = store.run("run", "-w", str(15 * SLOW), "n", "--", "touch", "ran", timeout=60)
    assert late.status in (69, 75), "longer than the lease"
    assert store.run("status", "n").status == 0 and "held" in store.run("list").out
    assert store.run("wait", "-w", "0.5", "n").status == 75
    assert store.run("once", "show", "n", "k").status == 1
    assert holder.status is None and not os.path.exists(os.path.join(store.directory, "ran"))
    site.move_keys(slot, source, target)
    site.end_move(slot, source, target)
    store.let("go")
    assert holder.wait(30) == 0 and store.is_free("n")


def test_a_shell_checks_while_its_slot_is_about_to_be_moved(store, site):
    source, slot = site.master_of("klock:n"), slot_of("klock:n")
    target = next(server for server in site.servers[:3] if server is not source)
    script = shells.start(store, 'eval "$(klock acquire --ttl 60s n)" || exit; echo up; read -r line;'
                                 ' klock check n || exit 9; klock renew n || exit 8')
    wait_until(lambda: "up" in script.out, what="it is held")
    site.begin_move(slot, source, target)
    site.move_keys(slot, source, target, "klock:n")
    assert shells.finish(script) == 0, script.err
    site.move_keys(slot, source, target)
    site.end_move(slot, source, target)


def test_the_log_is_half_moved(store, site):
    logs, slot = site.master_of("{klock:}:events"), slot_of("{klock:}:events")
    target = next(server for server in site.servers[:3] if server is not logs)
    assert store.run("run", "first", "--", "true").status == 0
    site.begin_move(slot, logs, target)
    site.move_keys(slot, logs, target, "{klock:}:events")
    holder = store.hold("n", "--ttl", "10s", command=UNTIL_GO)
    assert [event["event"] for event in events(store, "first")] == ["acquired", "released"]
    assert store.run("stats").status == 0
    site.move_keys(slot, logs, target)
    site.end_move(slot, logs, target)
    wait_until(lambda: [event["event"] for event in events(store, "n")] == ["acquired"], timeout=30, what="it is noted")
    store.let("go")
    assert holder.wait(30) == 0


def test_moved_back_and_forth(store, site):
    """Whoever runs meanwhile is told where to go, again and again."""
    slot = slot_of("klock:n")
    with Contenders(store, 4, ttl="10s") as contenders:
        for _ in range(6):
            source = site.master_of("klock:n")
            target = next(server for server in site.servers[:3] if server is not source)
            site.begin_move(slot, source, target)
            while site.client(source).execute_command("CLUSTER", "COUNTKEYSINSLOT", slot):
                site.move_keys(slot, source, target)
            site.end_move(slot, source, target)
            contenders.go_on(10)
    assert contenders.overlaps() == 0


def test_a_part_without_a_majority(store, site):
    """Two masters of three and their replicas are down: nobody may say who has the slot."""
    keep = site.master_of("klock:n")
    spared = (keep, site.replica_of(keep))
    holder = store.hold("n", "--ttl", "10s")
    for server in site.servers:
        if server not in spared:
            server.kill()
    wait_until(lambda: site.info(keep)["cluster_state"] == "fail", timeout=30, what="it says so")
    done = store.run("run", "--store-timeout", "1s", "n", "--", "touch", "ran")
    assert done.status == 69 and "the Cluster is down" in done.err
    assert holder.wait(40) == 79, "it can't be renewed"
    assert not os.path.exists(os.path.join(store.directory, "ran"))


def test_the_log_is_away(store, site):
    """Its server is another than the lock's: no lock fails because of it, and what happened is told later."""
    logs = site.master_of("{klock:}:events")
    name = next(name for name in "abcdefgh" if site.master_of(f"klock:{name}") is not logs)
    logs.freeze()
    assert store.run("run", "--store-timeout", "30s", name, "--", "true", timeout=60).status == 0
    holder = store.hold(name, command=UNTIL_GO)
    site.master_of("{klock:}:events", but=logs)
    logs.thaw()
    store.let("go")
    assert holder.wait(30) == 0
    wait_until(lambda: any(event["event"] == "released" for event in events(store, name)), timeout=30, what="it is noted")


def test_a_hold_that_the_new_master_never_knew(store, site):
    """Acknowledged writes were lost: the older holder is stopped, the fences differ and grow, and the log says so."""
    first = store.hold("n", "--ttl", "60s", command="echo $KLOCK_FENCE; exec sleep 100")
    first.send(signal.SIGSTOP)
    old = site.master_of("klock:n")
    old.kill()
    new = site.master_of("klock:n", but=old)
    site.client(new).flushall()
    second = store.start("run", "--store-timeout", "60s", "n", "--", "sh", "-c", "echo $KLOCK_FENCE; " + UNTIL_GO)
    wait_until(lambda: second.out.strip(), timeout=60, what="the other one runs")
    first.send(signal.SIGCONT)
    assert first.wait(60) == 79
    mine = int(first.out.split()[-1])
    assert int(second.out) > mine
    store.let("go")
    assert second.wait(30) == 0
    told = [event["event"] for event in events(store, "n") if event["fence"] == mine]
    assert told[-1] == "lost"


def test_contenders_while_masters_are_killed(store, site):
    """No two at once, but where the new master had lost the hold: then the older one is stopped."""
    with Contenders(store) as contenders:
        for _ in range(3):
            old = site.master_of("klock:n")
            old.kill()
            site.master_of("klock:n", but=old)
            contenders.go_on(60)
            old.start()
            wait_until(site.is_whole, timeout=60, what="the Cluster is whole")
    fences = contenders.fences()
    assert len(fences) > 180 and len(set(fences)) == len(fences) and contenders.overlaps() <= 3
