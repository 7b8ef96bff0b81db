# SPDX-License-Identifier: MIT
"""A master that Sentinels name: found, verified, and followed when another one takes its place."""
import json
import os
import signal

import pytest
import redis
from support import shells
from support.contenders import Contenders
from support.ports import free_port
from support.proc import wait_until
from support.sentinels import NAME, Sentinels
from support.servers import RedisServer


def is_replica(server):
    """Who becomes one closes its connections."""
    try:
        return server.client().role()[0] == "slave"
    except redis.ConnectionError:
        return False


@pytest.fixture
def site(tmp_path):
    made = Sentinels(tmp_path)
    yield made
    made.end()


@pytest.fixture
def store(site, make_klock):  # in this order: the servers must end after the klocks
    return make_klock(site.url)


def test_everything_works_through_the_master(store, site):
    holder = store.hold("n", "-m", "weekly")
    assert store.run("run", "-n", "n", "--", "true").status == 75
    (waiter,) = store.queue("n", 1)
    state = store.state("n")
    assert state["holders"][0]["pid"] == holder.pid and len(state["waiters"]) == 1
    assert state["store"].startswith("redis-sentinel://") and state["store"].endswith("/" + NAME)
    assert "1" in store.run("list").out.splitlines()[1].split()
    assert store.run("force-release", "--yes", "n").status == 0
    assert holder.wait() == 79 and waiter.wait() == 0
    assert store.run("run", "--once", "k", "o", "--", "true").status == 0
    assert store.run("run", "--slots", "2", "s", "--", "true").status == 0
    kinds = [json.loads(line)["event"] for line in store.run("log", "--json", "n").out.splitlines()]
    assert kinds.count("acquired") == 2 and "forced" in kinds
    assert json.loads(store.run("stats", "--json", "n").out)[0]["acquired"] == 2
    assert "3 of 3 name" in store.run("doctor").out
    script = shells.hold(store, "n")
    assert shells.finish(script) == 0


def test_the_login_of_the_servers_and_of_the_sentinels(make_klock, tmp_path):
    site = Sentinels(tmp_path, password="watch", server_password="geheim")
    try:
        klock = make_klock(site.url)
        refused = klock.run("run", "n", "--", "true")
        assert refused.status == 77 and "geheim" not in refused.err
        assert "KLOCK_SENTINEL_PASSWORD_FILE" in refused.err and "the Sentinel 127.0.0.1:" in refused.err
        site.sentinels[2].kill()
        blind = klock.run("run", "--if-unavailable", "run", "n", "--", "touch", "ran")
        assert blind.status == 77, "one that is down does not outweigh a refusal"
        secret = tmp_path / "secret"
        secret.write_text("watch\n", encoding="ascii")
        klock.env["KLOCK_SENTINEL_PASSWORD_FILE"] = str(secret)
        done = klock.run("run", "-v", "n", "--", "true")
        assert done.status == 0 and "geheim" not in done.err and "watch" not in done.err.replace("watch_", "")
        assert klock.run("run", "--sentinel-user", "nobody", "n", "--", "true").status == 77
    finally:
        site.end()


def test_sentinels_that_are_down_do_not_matter(store, site):
    site.sentinels[0].kill()
    assert store.run("run", "n", "--", "true").status == 0
    doctor = store.run("doctor").out
    assert "2 of 3 name" in doctor and "WARNING  sentinels" in doctor
    site.sentinels[1].kill()
    assert "DANGER   sentinels" in store.run("doctor").out
    assert store.run("run", "n", "--", "true").status == 0
    site.sentinels[2].kill()
    done = store.run("run", "n", "--", "true")
    assert done.status == 69 and "the Sentinel 127.0.0.1:" in done.err


def test_a_silent_sentinel_is_passed_over(store, site):
    site.sentinels[0].popen.send_signal(signal.SIGSTOP)
    try:
        done = store.run("run", "n", "--", "true")
        assert done.status == 0
    finally:
        site.sentinels[0].popen.send_signal(signal.SIGCONT)


def test_a_sentinel_that_is_cut_off_does_not_mislead(site, make_klock, tmp_path):
    """It names a server that calls itself a master, and is none of the others'."""
    place = tmp_path / "stale"
    place.mkdir()
    stale = RedisServer(place)
    site.sentinels[0].kill()
    port = site.sentinels[0].port
    lines = [f"port {port}", "bind 127.0.0.1", f"dir {place}", f"logfile {place}/sentinel.log",
             f"sentinel monitor {NAME} 127.0.0.1 {stale.port} 1"]
    (place / "sentinel.conf").write_text("\n".join(lines) + "\n", encoding="ascii")
    site.sentinels[0].config = str(place / "sentinel.conf")
    site.sentinels[0].start()
    try:
        klock = make_klock(site.url)
        klock.hold("n")
        assert stale.keys() == [] and site.servers[0].client().exists("klock:n")
    finally:
        stale.kill()


def test_what_is_no_sentinel(site, make_klock):
    done = make_klock(f"redis-sentinel://127.0.0.1:{site.servers[0].port}/{NAME}").run("run", "n", "--", "true")
    assert done.status == 78 and "it is no Sentinel" in done.err


def test_an_unknown_master(site, make_klock):
    done = make_klock(site.url.replace(NAME, "other")).run("run", "n", "--", "true")
    assert done.status == 78 and "know no master 'other'" in done.err


def test_a_server_that_is_no_master_is_not_used(site, make_klock):
    """The Sentinels may be behind."""
    klock = make_klock(site.url)
    client = site.servers[0].client()
    for sentinel in site.sentinels:
        sentinel.popen.send_signal(signal.SIGSTOP)
    client.replicaof("127.0.0.1", str(free_port()))
    for sentinel in site.sentinels:
        sentinel.popen.send_signal(signal.SIGCONT)
    done = klock.run("run", "--store-timeout", "0.5", "n", "--", "touch", "ran")
    assert done.status in (0, 69)
    if done.status == 69:
        assert "no master" in done.err and not os.path.exists(os.path.join(klock.directory, "ran"))


@pytest.mark.parametrize("how", ["kill", "freeze"])
def test_acquire_follows_a_failover(store, site, how):
    old = site.servers[0]
    getattr(old, how)()
    done = store.run("run", "--store-timeout", "60s", "n", "--", "true", timeout=80)
    assert done.status == 0 and site.master() is not old


@pytest.mark.parametrize("how", ["kill", "freeze"])
def test_a_hold_follows_a_failover(store, site, how):
    old = site.servers[0]
    holder = store.hold("n", "--ttl", "30s")
    site.client(old).wait(2, 5000)
    getattr(old, how)()
    new = site.await_failover(old)
    wait_until(lambda: "renewed again" in holder.err or new.client().pttl("klock:n") > 25000, timeout=30,
               what="renewed on the new master")
    assert holder.status is None and store.run("run", "-n", "n", "--", "true").status == 75
    holder.send(signal.SIGTERM)
    assert holder.wait() == 143 and store.is_free("n")


@pytest.mark.parametrize("how", ["kill", "freeze"])
def test_a_waiter_follows_a_failover(store, site, how):
    old = site.servers[0]
    holder = store.hold("n", "--ttl", "30s", command="while ! test -e go; do sleep 0.02; done")
    waiters = store.queue("n", 2, "sh", "-c", "echo {} >>order")
    site.client(old).wait(2, 5000)
    getattr(old, how)()
    new = site.client(site.await_failover(old))
    # One that has not reconnected yet when it is its turn is passed over.
    wait_until(lambda: len(new.pubsub_channels("*wake:*")) == 3, timeout=30, what="the holder and both waiters are there")
    store.let("go")
    assert holder.wait(40) == 0
    assert [waiter.wait(40) for waiter in waiters] == [0, 0]
    with open(os.path.join(store.directory, "order"), encoding="ascii") as order:
        assert order.read() == "0\n1\n"


def test_a_release_follows_a_failover(store, site):
    old = site.servers[0]
    holder = store.hold("n", "--ttl", "60s", command="while ! test -e go; do sleep 0.02; done")
    site.client(old).wait(2, 5000)
    old.kill()
    store.let("go")
    assert holder.wait(40) == 0 and "could not be confirmed" not in holder.err
    assert store.is_free("n")


def fail_over(site):
    """As planned: nobody is killed, and the old master does not know it for some time."""
    old = site.master()
    site.sentinels[0].client().execute_command("SENTINEL", "FAILOVER", NAME)
    wait_until(lambda: site.named() not in (None, old), timeout=30, what="the Sentinels name another")
    return old


def test_a_holder_follows_a_planned_failover(store, site):
    """A master that was replaced goes on as one until it learns of it."""
    holder = store.hold("n", "--ttl", "10s")
    site.client(site.servers[0]).wait(2, 5000)
    fail_over(site)
    new = site.master()
    busy = store.start("run", "-w", "12", "n", "--", "true")
    assert busy.wait(30) == 75, "longer than the lease"
    assert holder.status is None and site.client(new).exists("klock:n")


def test_a_release_follows_a_planned_failover(store, site):
    holder = store.hold("n", "--once", "k", "--ttl", "60s", command="while ! test -e go; do sleep 0.02; done")
    site.client(site.servers[0]).wait(2, 5000)
    fail_over(site)
    store.let("go")
    assert holder.wait() == 0 and store.is_free("n")
    assert store.run("once", "show", "n", "k").status == 0


def test_a_waiter_of_a_thawed_master_is_not_served_there(store, site):
    old = site.servers[0]
    holder = store.hold("n", "--ttl", "30s", command="while ! test -e go; do sleep 0.02; done")
    (waiter,) = store.queue("n", 1, "sh", "-c", "echo $KLOCK_FENCE; while ! test -e go2; do sleep 0.02; done")
    site.client(old).wait(2, 5000)
    old.freeze()
    site.await_failover(old)
    store.let("go")
    assert holder.wait(40) == 0
    old.thaw()
    wait_until(lambda: waiter.out.strip(), timeout=30, what="its turn")
    assert store.run("run", "-n", "n", "--", "true").status == 75, "it is held where the others look"
    store.let("go2")
    assert waiter.wait() == 0


def test_a_replaced_master_that_comes_back_is_not_asked(store, site):
    old = site.servers[0]
    old.kill()
    site.await_failover(old)
    holder = store.hold("n")
    old.start()
    assert store.run("run", "-n", "n", "--", "true").status == 75
    wait_until(lambda: is_replica(old), timeout=30, what="it has become a replica")
    assert holder.status is None


def test_enough_replicas(store, site):
    assert store.run("run", "--wait-replicas", "2", "n", "--", "true").status == 0
    holder = store.hold("n", "--wait-replicas", "1", command="while ! test -e go; do sleep 0.02; done")
    (waiter,) = store.queue("n", 1, options=("--wait-replicas", "2"))
    store.let("go")
    assert holder.wait() == 0 and waiter.wait() == 0, "handed over too"
    script = shells.hold(store, "--wait-replicas 2 n")
    assert shells.finish(script) == 0


def test_too_few_replicas(store, site, tmp_path):
    outcome = tmp_path / "outcome"
    done = store.run("run", "--wait-replicas", "3", "--outcome-file", str(outcome), "n", "--", "touch", "ran")
    assert done.status == 69 and "only 2 of 3 replicas" in done.err
    assert store.is_free("n") and not os.path.exists(os.path.join(store.directory, "ran"))
    report = json.loads(outcome.read_text(encoding="utf8"))
    assert (report["outcome"], report["acquired"]) == ("unavailable", False)
    end = json.loads(store.run("log", "--json", "n").out.splitlines()[-1])
    assert end["event"] == "released" and "replicas" in end["reason"]
    site.servers[1].freeze()
    holder = store.hold("n", command="while ! test -e go; do sleep 0.02; done")
    (waiter,) = store.queue("n", 1, options=("--wait-replicas", "2"))
    store.let("go")
    assert holder.wait() == 0 and waiter.wait() == 69, "a hand-over counts too"
    assert store.is_free("n")


def test_interrupted_while_it_waits_for_replicas(store, site):
    run = store.start("run", "--wait-replicas", "5", "n", "--", "true")
    wait_until(lambda: not store.is_free("n") or run.status is not None, what="it waits for them")
    run.send(signal.SIGTERM)
    assert run.wait() in (143, 69) and store.is_free("n")


def test_no_replicas_on_this_host(on_local, tmp_path):
    assert on_local.run("run", "--wait-replicas", "1", "n", "--", "true").status == 64
    settings = tmp_path / "klock.toml"
    settings.write_text("wait-replicas = 1\n", encoding="ascii")
    assert on_local.run("run", "--config", str(settings), "n", "--", "true").status == 78
    assert on_local.run("run", "--wait-replicas", "0", "n", "--", "true").status == 0


def test_contenders_through_failovers(store, site):
    """No two at once, but where the new master had lost the hold: then the older one is stopped."""
    with Contenders(store, 10) as contenders:
        for _ in range(3):
            old = site.master()
            old.kill()
            site.await_failover(old)
            contenders.go_on(65)
            old.start()
            wait_until(lambda o=old: is_replica(o), timeout=30, what="it is a replica")
    fences = contenders.fences()
    assert len(fences) >= 200 and len(set(fences)) == len(fences) and contenders.overlaps() <= 3
