# SPDX-License-Identifier: MIT
"""Servers that are down, silent, confused or forbidding: three different answers, each within its time."""
import pathlib
import signal

import pytest
from support.ports import free_port
from support.proc import SLOW, alive, holds_for, wait_until
from support.servers import FalseServer, answering


def run_n(klock, *options, **more):
    done = klock.run("run", *options, "n", "--", "echo", "ran", **more)
    if done.status != 0:
        assert done.out == "" and done.err.startswith("klock: n: ") and done.err.count("\n") == 1, done.err
        assert "ERR Error running script" not in done.err and "user_script" not in done.err
    return done


def test_server_that_is_down_is_69_at_once(make_klock):
    url = f"redis://127.0.0.1:{free_port()}"
    done = run_n(make_klock(url))
    assert done.status == 69 and done.seconds < 1 * SLOW and url in done.err


def test_socket_that_is_not_there_is_69_and_named(make_klock, tmp_path):
    done = run_n(make_klock(f"unix://{tmp_path}/no.sock"))
    assert done.status == 69 and f"{tmp_path}/no.sock" in done.err


def test_silent_server_is_69_within_5_s(make_klock):
    with FalseServer(lambda connection: [connection.recv(9999) for _ in range(99)]) as silent:
        done = run_n(make_klock(silent.url))
        assert done.status == 69 and 4 < done.seconds < 5 + 0.5 * SLOW
        for options in (["--store-timeout", "400ms"], ["-w", "400ms"]):
            done = run_n(make_klock(silent.url), *options)
            assert done.status == 69 and done.seconds < 0.7 + 0.5 * SLOW


def test_frozen_server_is_69(on_redis, redis):
    redis.freeze()
    done = run_n(on_redis, "--store-timeout", "500ms")
    assert done.status == 69 and done.seconds < 1 + 0.5 * SLOW


GARBAGE = {
    "another protocol": b"HTTP/1.1 400 Bad Request\r\n\r\n", "cut reply": b"*3\r\n$5\r\nab", "nothing": b"",
    "zeros": b"\0" * 100, "endless array": b"*2147483647\r\n", "endless string": b"$999999999\r\nabc",
    "nested without end": b"*1\r\n" * 5000, "wrong type": b":7\r\n" * 9, "empty array": b"*0\r\n" * 9,
    "nil": b"$-1\r\n" * 9, "nil array": b"*-1\r\n" * 9, "strange array": b"*2\r\n:1\r\n*1\r\n$1\r\nx\r\n" * 9,
}


@pytest.mark.parametrize("what", GARBAGE)
def test_garbage_is_69(make_klock, what):
    def serve(connection):
        connection.recv(9999)
        connection.sendall(GARBAGE[what])

    with FalseServer(serve) as garbage:
        for options in (["-n"], ["-w", "1s"]):
            done = run_n(make_klock(garbage.url), *options, "--store-timeout", "1s")
            assert done.status == 69, (what, done.err)
            assert done.seconds < 1.5 + SLOW


def test_unknown_host_is_69(make_klock):
    done = run_n(make_klock("redis://no-such-host.invalid"))
    assert done.status == 69 and "no-such-host.invalid" in done.err and done.seconds < 6 * SLOW


def test_missing_and_wrong_password_are_77(make_klock, make_redis):
    server = make_redis("--requirepass", "right")
    for user in ("", ":wrong@", "nobody:right@"):
        done = run_n(make_klock(f"redis://{user}127.0.0.1:{server.port}"), "-w", "3")
        assert done.status == 77 and done.seconds < 1 * SLOW, user
    assert run_n(make_klock(f"redis://:right@127.0.0.1:{server.port}")).status == 0


@pytest.mark.parametrize("rules", [
    ["~*", "&*", "+@all", "-@scripting", "-@transaction"], ["~other:*", "&*", "+@all"], ["~klock:n", "&*", "+@all"],
    ["~*", "&*", "+@all", "-set"], ["~*", "&*", "-@all"]])
def test_missing_permission_is_77_before_the_command_starts(make_klock, redis, client, rules):  # R51
    client.execute_command("ACL", "SETUSER", "job", "on", ">pw", *rules)
    done = run_n(make_klock(f"redis://job:pw@127.0.0.1:{redis.port}"))
    assert done.status == 77, done.err
    wait_until(lambda: not client.exists("klock:n"), timeout=1, what="nothing stays held")


def test_documented_permissions_suffice(make_klock, redis, client):
    client.execute_command("ACL", "SETUSER", "job", "on", ">pw", "resetkeys", "~klock:*", "~{klock:*", "resetchannels",
                           "&{klock:*", "+@all", "-@dangerous")
    klock = make_klock(f"redis://job:pw@127.0.0.1:{redis.port}")
    holder = klock.hold("n", "--ttl", "2s", command="sleep 3")
    waiter = klock.queue("n", 1)[0]
    assert holder.wait() == 0 and waiter.wait() == 0 and not holder.err and not waiter.err


def test_user_without_channels_still_gets_locks(make_klock, redis, client):
    client.execute_command("ACL", "SETUSER", "job", "on", ">pw", "~*", "resetchannels", "+@all")
    klock = make_klock(f"redis://job:pw@127.0.0.1:{redis.port}")
    holder = klock.hold("n", "--ttl", "2s", command="sleep 3")
    assert klock.run("run", "-w", "15", "n", "--", "true", timeout=20).status == 0
    assert holder.wait() == 0


@pytest.mark.parametrize("kind", ["list", "hash", "set", "zset", "stream"])
def test_key_of_another_type_is_a_foreign_holder(on_redis, client, kind):
    {"list": lambda: client.rpush("klock:n", "a"), "hash": lambda: client.hset("klock:n", "a", "1"),
     "set": lambda: client.sadd("klock:n", "a"), "zset": lambda: client.zadd("klock:n", {"a": 1}),
     "stream": lambda: client.xadd("klock:n", {"a": "1"})}[kind]()
    before = client.type("klock:n"), client.object("encoding", "klock:n")
    for options in (["-n"], ["-w", "300ms"]):
        done = run_n(on_redis, *options)
        assert done.status == 75 and "another client" in done.err
    assert before == (client.type("klock:n"), client.object("encoding", "klock:n"))


def test_auxiliary_key_of_another_type_is_77(on_redis, redis, client):
    holder = on_redis.hold("n", "--ttl", "3s")
    on_redis.queue("n", 1)
    beside = [key for key in redis.keys("klock:n") if "{" in key]
    assert beside
    on_redis.end_all()
    assert holder.wait() == 143
    refused = 0
    for key in beside:
        client.flushall()
        client.rpush(key, "a")  # none of them is a list
        done = run_n(on_redis, "-w", "500ms")
        assert done.status in (0, 77), (key, done.status, done.err)
        # What was taken before the refusal is given back by expiring, as DEL may be the very command that is refused.
        wait_until(lambda: not client.exists("klock:n"), timeout=1, what=f"{key}: nothing stays held")
        refused += done.status == 77
    assert refused > 0


def test_full_server_is_69(on_redis, client):
    client.config_set("maxmemory", 1)
    assert run_n(on_redis, "-w", "1s").status == 69
    client.config_set("maxmemory", 0)
    assert not client.keys("*klock:n*")


@pytest.mark.parametrize("mode", [[], ["-s"], ["--slots", "2"]])
def test_full_server_lets_those_who_hold_go_on(on_redis, client, mode):
    holder = on_redis.hold("n", *mode, "--ttl", "3s", command="read x; exit 3", stdin=-1)
    outer = on_redis.hold("m", *mode, "--ttl", "3s", command=f"{on_redis.path} run {' '.join(mode)} m -- sh -c 'echo in; sleep 1000'")
    wait_until(lambda: outer.out.endswith("in\n"), what="it has joined")
    client.config_set("maxmemory", 1)
    assert holds_for(lambda: holder.popen.poll() is None and outer.popen.poll() is None, 4)
    holder.popen.stdin.close()
    assert holder.wait() == 3, holder.err
    client.config_set("maxmemory", 0)
    outer.send(signal.SIGTERM)
    assert outer.wait() == 143


def test_read_only_replica_is_69(on_redis, client):
    client.replicaof("127.0.0.1", 1)
    done = run_n(on_redis, "--store-timeout", "1s")
    assert done.status == 69 and "replica" in done.err.lower()
    client.config_set("replica-serve-stale-data", "no")
    assert run_n(on_redis, "--store-timeout", "1s").status == 69


def test_server_that_cannot_save_is_69(make_klock, make_redis):  # MISCONF
    server = make_redis("--save", "3600 1", "--enable-protected-configs", "yes")
    client = server.client()
    client.set("x", "y")
    directory = pathlib.Path(server.directory) / "gone"
    directory.mkdir()
    client.config_set("dir", str(directory))
    directory.rmdir()
    client.bgsave()
    wait_until(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err")
    assert run_n(make_klock(server.url), "--store-timeout", "1s").status == 69


def test_loading_server_is_waited_for_and_then_69(make_klock):
    with FalseServer(answering(b"-LOADING Redis is loading the dataset in memory\r\n")) as loading:
        done = run_n(make_klock(loading.url), "--store-timeout", "900ms")
        assert done.status == 69 and 0.5 < done.seconds < 1.2 + SLOW


def test_cluster_error_is_never_an_acquisition(make_klock):
    for reply in (b"-CLUSTERDOWN Hash slot not served\r\n", b"-MASTERDOWN Link with MASTER is down\r\n", b"-MOVED 1 h:1\r\n",
                  b"-CROSSSLOT Keys in request don't hash to the same slot\r\n", b"-ERR unknown command\r\n", b"+OK\r\n"):
        with FalseServer(answering(reply)) as server:
            done = run_n(make_klock(server.url), "--store-timeout", "300ms")
            assert done.status in (69, 77, 78), (reply, done.status, done.err)


def test_unknown_database_is_a_configuration_error(make_klock, redis):
    assert run_n(make_klock(redis.url + "/99")).status in (77, 78)


def test_a_waiter_gives_up_when_the_server_stays_away(on_redis, redis):
    holder = on_redis.hold("n", "--ttl", "1s")
    waiter = on_redis.start("run", "-w", "2s", "n", "--", "echo", "ran")
    wait_until(lambda: on_redis.waiters("n") == 1)
    redis.kill()
    assert waiter.wait() in (69, 75) and waiter.out == "" and waiter.seconds < 2.5 + 0.5 * SLOW
    assert holder.wait() == 79


@pytest.mark.parametrize("limit", [7, 8, 9, 10])
def test_few_descriptors_when_the_connection_is_cut(on_redis, redis, limit):
    run = on_redis.start_program("prlimit", f"--nofile={limit}", on_redis.path, "run", "--ttl", "1.5s", "n", "--", "sleep", "2")
    client = redis.client()
    wait_until(lambda: run.status is not None or client.exists("klock:n"), 10, "the hold or its refusal")
    client.client_kill_filter(_type="normal", skipme=True)
    assert run.wait(20) in (0, 69, 71, 79), run.err


def test_few_descriptors_when_klock_is_killed(on_local):
    """The guard has its own copy of the lock's descriptor, or nothing is started."""
    ran = []
    for limit in range(5, 14):
        run = on_local.start_program("prlimit", f"--nofile={limit}:", on_local.path, "run", "--kill-after", "500ms",
                                     "n", "--", "sh", "-c", "trap '' TERM; echo up; while :; do :; done")
        wait_until(lambda r=run: "up" in r.out or r.status is not None, 10, "the hold or its refusal")
        if run.status is not None:
            assert run.status in (71, 77, 126), run.err
            continue
        ran.append(limit)
        command = run.command
        run.send(signal.SIGKILL)
        while alive(command):
            assert on_local.run("run", "-n", "n", "--", "true").status == 75 or not alive(command), limit
        wait_until(lambda: on_local.is_free("n"), 10, "the guard's release")
    assert ran
