# SPDX-License-Identifier: MIT
"""A majority of five independent servers, of which some are killed, frozen and restarted."""
import json
import os
import signal
import time

import pytest
from support import shells
from support.contenders import Contenders
from support.foreign import start_node, unlock
from support.independent import Independent
from support.proc import SLOW, alive, holds_for, wait_until
from support.servers import FalseServer


@pytest.fixture
def site(tmp_path):
    made = Independent(tmp_path)
    yield made
    made.end()


@pytest.fixture
def store(site, make_klock):  # in this order: the servers must end after the klocks
    made = make_klock(site.url)
    # On a busy machine a vote may be overtaken by the end of its process, and then stands for one lease.
    made.patience = 40
    return made


def log_of(store, name="n"):
    return [json.loads(line) for line in store.run("log", "--json", name).out.splitlines()]


def fence_of(store, *options):
    done = store.run("run", "--ttl", "3s", *options, "n", "--", "sh", "-c", "echo $KLOCK_FENCE", timeout=30)
    assert done.status == 0, done.err
    return int(done.out)


def test_everything_that_goes_with_a_majority(store, site):
    holder = store.hold("n", "-m", "weekly")
    busy = store.run("run", "-n", "n", "--", "true")
    assert busy.status == 75 and "weekly" in busy.err
    waiter = store.start("run", "n", "--", "true")
    state = store.state("n")
    assert state["holders"][0]["pid"] == holder.pid and state["holders"][0]["servers"] == 5
    assert state["servers"] == {"configured": 5, "answered": 5}
    assert "on 5 of 5 servers" in store.run("status", "n").out
    assert "held" in store.run("list").out.splitlines()[1]
    assert store.run("wait", "-w", "0", "n").status == 75
    assert store.run("force-release", "--yes", "--reason", "why not", "n").status == 0
    assert holder.wait() == 79 and "why not" in holder.err
    assert waiter.wait() == 0
    assert store.run("wait", "n").status == 0 and store.run("status", "n").status == 1
    kinds = [event["event"] for event in log_of(store)]
    assert kinds.count("acquired") == 2 and kinds.count("forced") == 1 and kinds.count("released") == 1, kinds
    assert kinds.count("waiting") == 1 and kinds.count("timed_out") == 1, kinds
    assert json.loads(store.run("stats", "--json", "n").out)[0]["acquired"] == 2
    assert "5 of 5 servers answer" in store.run("doctor").out
    wait_until(lambda: site.values() == [None] * 5, what="nothing is left")


def test_a_hold_of_a_shell(store):
    script = shells.hold(store, "n")
    assert store.state("n")["holders"][0]["servers"] == 5
    assert shells.finish(script) == 0
    wait_until(lambda: store.run("status", "n").status == 1, what="released")
    text = (f'eval "$({store.path} acquire n)" || exit; {store.path} check n && {store.path} renew n && '
            f'{store.path} run n -- echo joined && {store.path} release n; echo $?; {store.path} check n; echo $?')
    done = store.start_program("sh", "-c", text)
    assert done.wait() == 0 and done.out.split() == ["joined", "0", "1"], (done.out, done.err)


def test_a_hold_for_maintenance(store, site):
    assert store.run("acquire", "--for", "1h", "-m", "closed", "n").status == 0
    assert "closed" in store.run("run", "-n", "n", "--", "true").err
    assert store.run("force-release", "--yes", "n").status == 0
    wait_until(lambda: site.values() == [None] * 5, what="nothing is left")


def test_several_locks_and_nested_runs(store):
    inner = f"{store.path} run -n b -- echo in"
    done = store.run("run", "--also", "b", "a", "--", "sh", "-c", inner)
    assert done.status == 0 and done.out == "in\n", done.err


@pytest.mark.parametrize("options", [["-s"], ["--slots", "3"], ["--max-waiters", "2"], ["--wait-replicas", "1"],
                                     ["--once", "k"]])
def test_what_does_not_go_with_it_is_refused(store, site, options):
    done = store.run("run", *options, "n", "--", "true")
    assert done.status == 64 and "not go with a Redlock" in done.err
    assert all(not server.keys() for server in site.servers)


def test_two_of_five_are_down(store, site):
    for server in site.servers[:2]:
        server.kill()
    assert store.run("run", "n", "--", "true").status == 0
    holder = store.hold("n", "--ttl", "3s")
    state = store.state("n")
    assert state["servers"] == {"configured": 5, "answered": 3} and state["holders"][0]["servers"] == 3
    assert "3 of 5 servers answer" in store.run("status", "n").out
    assert "WARNING  majority" in store.run("doctor").out
    assert store.run("run", "-n", "n", "--", "true").status == 75
    assert holds_for(lambda: holder.status is None, 4), "the lease was renewed"
    holder.send(signal.SIGTERM)
    assert holder.wait() == 143


def test_three_of_five_are_down(store, site):
    for server in site.servers[:3]:
        server.kill()
    done = store.run("run", "n", "--", "touch", "ran")
    assert done.status == 69 and "only 2 of 5 servers answered, 3 are needed" in done.err
    assert not os.path.exists(f"{store.directory}/ran")
    assert [server.keys("events", "groups", "index", "stats:n") for server in site.servers[3:]] == [[], []]
    assert store.run("status", "n").status == 69
    assert store.run("doctor").status == 69


def test_a_majority_goes_while_it_is_held(store, site):
    holder = store.hold("n", "--ttl", "3s")
    command = holder.command
    for server in site.servers[:3]:
        server.kill()
    assert holder.wait(20) == 79
    assert not alive(command)
    assert "only 2 of 5" in holder.err
    wait_until(lambda: site.values() == [None] * 2, what="what was left is given back")


def test_a_majority_comes_back_in_time(store, site):
    holder = store.hold("n", "--ttl", "10s")
    for server in site.servers[:3]:
        server.freeze()
    wait_until(lambda: "can't be renewed just now" in holder.err, timeout=15, what="trouble")
    for server in site.servers[:3]:
        server.thaw()
    assert holds_for(lambda: holder.status is None, 10), holder.err


def test_frozen_servers_do_not_delay(store, site):
    for server in site.servers[:2]:
        server.freeze()
    began = time.monotonic()
    for _ in range(5):
        assert store.run("run", "n", "--", "true").status == 0
    assert time.monotonic() - began < 5 * SLOW, "a server has 2 s for an answer"
    for server in site.servers[:2]:
        server.thaw()
    wait_until(lambda: site.values() == [None] * 5, what="what they gave late was given back")


def test_a_minority_is_given_back_at_once(store, site):
    for server in site.servers[:3]:
        server.client().set("klock:n", "somebody", px=600000)
    done = store.run("run", "-n", "n", "--", "true")
    assert done.status == 75 and "another client" in done.err
    wait_until(lambda: site.values() == ["somebody"] * 3 + [None] * 2, what="the minority is given back")
    state = store.state("n")
    assert state["holders"][0]["foreign"] and state["holders"][0]["servers"] == 3
    assert store.run("force-release", "--yes", "--now", "n").status == 0
    wait_until(lambda: site.values() == [None] * 5, what="nothing is left")


def test_a_minority_of_others_does_not_matter(store, site):
    for server in site.servers[:2]:
        server.client().set("klock:n", "somebody", px=600000)
    assert store.state("n")["state"] == "free"
    assert store.run("run", "-n", "n", "--", "true").status == 0
    wait_until(lambda: site.values() == ["somebody"] * 2 + [None] * 3, what="the votes are given back")


def test_a_restarted_server_gets_the_hold_again(store, site):
    holder = store.hold("n", "--ttl", "3s")
    token = site.values()[4]
    site.servers[0].restart()
    assert "DANGER   restart" in store.run("doctor", "--ttl", "1h").out
    wait_until(lambda: site.values() == [token] * 5, what="the renewal adds it again")
    site.servers[1].kill()
    site.servers[2].kill()
    assert holds_for(lambda: holder.status is None, 4), "the restarted one counts"


def test_a_majority_that_restarts_empty_has_lost_it(store, site):
    holder = store.hold("n", "--ttl", "6s")
    for server in site.servers[:3]:
        server.kill()
    for server in site.servers[:3]:
        server.start()
    assert holder.wait(20) == 79
    assert "gone" in holder.err
    wait_until(lambda: site.values() == [None] * 5, what="nothing is left")
    assert [event["event"] for event in log_of(store)].count("lost") == 1


def test_what_is_taken_back_is_told_once(store, site):
    holder = store.hold("n", "--ttl", "6s", "--on-gone", "reclaim")
    clients = [server.client() for server in site.servers]
    wait_until(lambda: all(client.exists("klock:n") for client in clients), what="all have it")
    for client in clients:
        client.delete("klock:n")
    wait_until(lambda: "reclaimed" in store.run("log", "n").out, timeout=20, what="it is taken back")
    holder.send(signal.SIGTERM)
    holder.wait()
    assert [event["event"] for event in log_of(store)] == ["acquired", "reclaimed", "released"]


def test_the_fence_grows_over_all_servers(store, site):
    for server in site.servers[:3]:
        server.client().set("{klock:n}:fence", 4_000_000_000_000_000)
    first = fence_of(store)
    site.servers[0].kill()
    site.servers[1].kill()
    second = fence_of(store)
    site.servers[1].start()
    site.servers[2].kill()
    third = fence_of(store)
    assert 4_000_000_000_000_000 < first < second < third


def test_a_release_ends_with_those_that_can_be_reached(site, make_klock):
    """One is down and one has lost the hold, so neither answer has a majority: there is nothing to wait for."""
    store = make_klock(site.url_of(3))
    holder = store.hold("n", "--ttl", "60s")
    script = shells.hold(store, "--ttl 60s m")
    clients = [server.client() for server in site.servers[:3]]
    wait_until(lambda: all(client.exists("klock:n", "klock:m") == 2 for client in clients), what="all have them")
    site.servers[2].kill()
    clients[1].delete("klock:n", "klock:m")
    holder.send(signal.SIGTERM)
    assert holder.wait(20) == 143
    assert shells.finish(script) == 0
    wait_until(lambda: clients[0].exists("klock:n", "klock:m") == 0, what="nothing is left")
    assert store.run("run", "-n", "m", "--", "true").status == 0


def test_the_guard_releases_everywhere(store, site):
    holder = store.hold("n")
    command = holder.command
    holder.send(signal.SIGKILL)
    assert store.run("run", "-w", "10", "n", "--", "true", timeout=15).status == 0
    assert command is not None
    wait_until(lambda: site.values() == [None] * 5, what="the guard has released everywhere")


def test_refused_by_a_majority(make_klock, tmp_path):
    site = Independent(tmp_path, 3, "--requirepass", "geheim")
    try:
        klock = make_klock(site.url)
        refused = klock.run("run", "--if-unavailable", "run", "n", "--", "true")
        assert refused.status == 77 and "0 of 3 servers take part" in refused.err
        secret = tmp_path / "secret"
        secret.write_text("geheim\n", encoding="ascii")
        done = klock.run("run", "-v", "n", "--", "true", env={"KLOCK_PASSWORD_FILE": str(secret)})
        assert done.status == 0 and "geheim" not in done.err
        site.servers[0].client(password="geheim").config_set("requirepass", "other")
        assert klock.run("run", "n", "--", "true", env={"KLOCK_PASSWORD_FILE": str(secret)}).status == 0
    finally:
        site.end()


def test_one_server_under_two_names(site, make_klock):
    first, second = site.servers[0].port, site.servers[1].port
    store = make_klock(f"redlock://127.0.0.1:{first},localhost:{first},127.0.0.1:{second}")
    done = store.run("doctor")
    assert f"DANGER   names         127.0.0.1:{first} and localhost:{first} are one server" in done.out, done.out
    assert done.status == store.run("doctor", "--ttl", "1h").status != 0
    assert "one server" not in make_klock(site.url).run("doctor").out


def test_without_scripts_there_is_no_majority(site, make_klock):
    store = make_klock(site.url_of(3).replace("redlock://", "redlock://job:pw@"))
    for number, server in enumerate(site.servers[:3]):
        forbidden = ["-@scripting"] if number < 2 else []
        server.client().execute_command("ACL", "SETUSER", "job", "on", ">pw", "~*", "&*", "+@all", *forbidden)
    assert "DANGER   scripts" in store.run("doctor").out
    assert store.run("run", "n", "--", "true").status == 77
    site.servers[0].client().execute_command("ACL", "SETUSER", "job", "+@all")
    assert "WARNING  scripts" in store.run("doctor").out
    assert store.run("run", "n", "--", "true").status == 0


def test_no_overlap_while_servers_come_and_go(store, site):
    with Contenders(store) as contenders:
        for number in (0, 1, 2, 3, 4):
            site.servers[number].kill()
            contenders.go_on(20)
            # Delayed restart: it has to stay away for one lease.
            time.sleep(4.5)
            site.servers[number].start()
            contenders.go_on(15)
        site.servers[0].freeze()
        site.servers[1].freeze()
        contenders.go_on(15)
        site.servers[0].thaw()
        site.servers[1].thaw()
        contenders.go_on(15)
    assert len(contenders.fences()) >= 200 and contenders.overlaps() == 0


@pytest.mark.parametrize("first", ["klock", "node"])
def test_node_redlock(store, site, first):
    if first == "klock":
        holder = store.hold("n", "--key", "job")
        other = start_node(store, site.servers, "redlock")
        assert other.wait() == 0 and "LockError" in other.out
        holder.send(signal.SIGTERM)
        holder.wait()
        return
    other = start_node(store, site.servers, "redlock")
    wait_until(lambda: "locked" in other.out, timeout=20, what="node holds it")
    assert store.run("run", "-n", "--key", "job", "n", "--", "true").status == 75
    waiter = store.start("run", "-w", "20", "--key", "job", "n", "--", "true")
    unlock(other)
    assert waiter.wait(30) == 0 and "unlocked" in other.out


def test_a_minority_that_knows_of_a_holder_is_obeyed(store, site):
    """Whoever would rather run without the lock when the store is away does not run beside him."""
    holder = store.hold("n", "--ttl", "30s")
    for server in site.servers[:3]:
        server.kill()
    done = store.run("run", "--if-unavailable", "run", "n", "--", "touch", "ran", timeout=60)
    assert done.status == 69 and not os.path.exists(os.path.join(store.directory, "ran"))
    holder.send(signal.SIGTERM)
    holder.wait(60)
    done = store.run("run", "--if-unavailable", "run", "m", "--", "touch", "ran", timeout=60)
    assert done.status == 0 and os.path.exists(os.path.join(store.directory, "ran"))


def test_a_minority_that_is_no_redis_is_obeyed(site, make_klock):
    """It answers, so the store is not away."""
    def answer(peer):
        peer.recv(1000)
        peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    site.servers[1].kill()
    with FalseServer(answer) as web:
        store = make_klock(f"{site.url_of(2)},127.0.0.1:{web.port}")
        done = store.run("run", "--if-unavailable", "run", "n", "--", "touch", "ran", timeout=60)
    assert done.status == 69 and "1 of 3 servers take part" in done.err
    assert not os.path.exists(os.path.join(store.directory, "ran"))
