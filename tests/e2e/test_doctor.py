# SPDX-License-Identifier: MIT
"""klock doctor: finds each fault in a store that really has it, and changes nothing."""
import contextlib
import json
import os
import re
import shutil
import subprocess
import time

import pytest
from support.ports import free_port
from support.proc import wait_until
from support.servers import FalseServer, answering, commands

EVIL = "\x1b]0;owned\x07\r\x9b31m‮end"
SAFE = ("--appendonly", "yes", "--appendfsync", "always")
STATUS = {"ok": 0, "unknown": 0, "warning": 1, "danger": 2}


def examine(klock, *words, start=None):
    """{subject: finding} of `klock doctor --json`; its status fits them, and the text says the same."""
    done = (start or klock.start)("doctor", "--json", *words)
    done.wait()
    assert done.err == "", done.err
    found = json.loads(done.out)
    assert all(list(finding) == ["severity", "subject", "what", "remedy"] for finding in found)
    assert done.status == max(STATUS[finding["severity"]] for finding in found), (done.status, found)
    by_subject = {finding["subject"]: finding for finding in found}
    assert len(by_subject) == len(found), found
    for finding in found:
        assert finding["remedy"] or finding["severity"] in ("ok", "unknown"), finding
    return by_subject


def severities(found, *expected):
    return {subject: finding["severity"] for subject, finding in found.items() if finding["severity"] in expected}


@pytest.fixture
def user(client, redis, make_klock):
    """user(*rights) -> klock as a user who has these."""

    def make(*rights):
        assert client.execute_command("ACL", "SETUSER", "ann", "reset", "on", ">geheim", *rights)
        return make_klock(f"redis://ann:geheim@127.0.0.1:{redis.port}")

    return make


def test_good_server_is_0_and_nothing_changes(make_klock, make_redis):
    server = make_redis(*SAFE)
    klock = make_klock(server.url)
    klock.hold("n")
    before = server.keys()
    found = examine(klock)
    assert severities(found, "unknown", "warning", "danger") == {}
    assert set(found) == {"server", "persistence", "eviction", "memory", "role", "replication", "min-replicas", "restart",
                          "writes", "permissions", "clock", "round trip"}
    assert server.keys() == before and klock.state("n")["state"] == "held"
    about = server.client().info("server")
    assert about.get("valkey_version", about["redis_version"]) in found["server"]["what"]


def test_nothing_is_written_not_even_for_a_moment(on_redis, client):
    changes = client.info("persistence")["rdb_changes_since_last_save"]
    assert examine(on_redis)["permissions"]["severity"] == "ok"
    assert client.info("persistence")["rdb_changes_since_last_save"] == changes
    client.set("x", "y")
    assert client.info("persistence")["rdb_changes_since_last_save"] == changes + 1


def test_text_has_a_line_for_each_in_columns(on_redis):
    done = on_redis.run("doctor")
    assert done.status == 1 and done.err == ""
    lines = done.out.splitlines()
    assert len(lines) == len(examine(on_redis))
    assert {re.match(r"(OK|UNKNOWN|WARNING|DANGER) +", line).end() for line in lines} == {9}
    assert len({re.match(r".{9}(\w|[- ]\w)+ +", line).end() for line in lines}) == 1
    (eviction,) = (line for line in lines if " eviction " in line)
    assert eviction.split() == ["OK", "eviction", "noeviction"]
    (persistence,) = (line for line in lines if " persistence " in line)
    assert persistence.startswith("WARNING  ") and "; remedy: appendonly yes" in persistence


@pytest.mark.parametrize("options, subject, severity, text", [
    (["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"], "eviction", "danger", "allkeys-lru"),
    (["--maxmemory", "100mb", "--maxmemory-policy", "volatile-ttl"], "eviction", "danger", "volatile-ttl"),
    (["--maxmemory-policy", "allkeys-lru"], "eviction", "warning", "maxmemory"),
    (["--maxmemory", "100mb"], "eviction", "ok", "noeviction"),
    ([], "persistence", "warning", "none"),
    (["--save", "3600 1"], "persistence", "warning", "snapshots"),
    (["--appendonly", "yes", "--appendfsync", "everysec"], "persistence", "ok", "last second"),
    (["--appendonly", "yes", "--appendfsync", "no"], "persistence", "warning", "kernel"),
    (["--min-replicas-to-write", "1"], "min-replicas", "danger", "fewer"),
    (["--min-replicas-to-write", "1"], "writes", "danger", "replicas"),
])
def test_settings_that_endanger_locks(make_klock, make_redis, options, subject, severity, text):  # R44
    finding = examine(make_klock(make_redis(*options).url))[subject]
    assert finding["severity"] == severity and text in finding["what"]


def test_full_memory(make_klock, make_redis):
    server = make_redis()
    client, klock = server.client(), make_klock(server.url)
    client.config_set("maxmemory", int(client.info("memory")["used_memory"] * 1.04))
    assert examine(klock)["memory"]["severity"] == "warning"
    client.config_set("maxmemory", 1)
    found = examine(klock)
    assert found["memory"]["severity"] == "warning" and found["writes"]["severity"] == "danger"


def test_failed_snapshot(make_klock, make_redis, tmp_path):
    (tmp_path / "data").mkdir()
    server = make_redis("--save", "3600 1", "--dir", str(tmp_path / "data"))
    client = server.client()
    shutil.rmtree(tmp_path / "data")
    with contextlib.suppress(Exception):
        client.bgsave()
    wait_until(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err", what="the snapshot failed")
    found = examine(make_klock(server.url))
    assert found["persistence"]["severity"] == found["writes"]["severity"] == "danger"
    client.config_set("stop-writes-on-bgsave-error", "no")
    found = examine(make_klock(server.url))
    assert (found["persistence"]["severity"], found["writes"]["severity"]) == ("warning", "ok")


def test_replica_of_a_dead_master(make_klock, make_redis):
    dead = free_port()
    server = make_redis(*SAFE, "--replicaof", f"127.0.0.1 {dead}")
    found = examine(make_klock(server.url))
    assert severities(found, "danger").keys() == {"role", "writes"}
    assert f"127.0.0.1 port {dead}" in found["role"]["what"] and "link" in found["role"]["what"]


def test_replicas_and_min_replicas(make_klock, make_redis):
    master = make_redis(*SAFE, "--repl-diskless-sync-delay", "0")
    client, klock = master.client(), make_klock(master.url)
    replica = make_redis("--replicaof", f"127.0.0.1 {master.port}")
    wait_until(lambda: client.info("replication").get("slave0", {}).get("state") == "online", timeout=30,
               what="the replica is online")
    found = examine(klock, "--ttl", "1m")
    assert severities(found, "warning", "danger") == {"min-replicas": "warning"}
    assert found["replication"]["severity"] == "ok" and "1 replica" in found["replication"]["what"]
    client.config_set("min-replicas-to-write", 1)
    assert examine(klock)["min-replicas"]["severity"] == "ok"
    client.config_set("min-replicas-to-write", 0)
    replica.freeze()
    lagging = wait_until(lambda: (found := examine(klock, "--ttl", "1s"))["replication"]["severity"] == "warning" and found,
                         timeout=30, what="the replica lags")
    assert str(replica.port) in lagging["replication"]["what"]


def test_a_restart_within_the_lease(make_klock, make_redis):
    server = make_redis("--appendonly", "yes")
    klock = make_klock(server.url)
    assert examine(klock, "--ttl", "1h")["restart"]["severity"] == "warning"
    wait_until(lambda: examine(klock, "--ttl", "1s")["restart"]["severity"] == "ok", what="up for longer than a lease")
    server.restart()
    assert examine(klock, "--ttl", "1h")["restart"]["severity"] == "warning"
    server.client().config_set("appendfsync", "always")
    assert examine(klock, "--ttl", "1h")["restart"]["severity"] == "ok"


def test_a_clock_that_is_wrong(make_klock, make_redis, wrong_clock):  # R46
    server = make_redis(env=wrong_clock(3600))
    assert server.client().time()[0] - time.time() > 3000
    finding = examine(make_klock(server.url))["clock"]
    assert finding["severity"] == "warning" and re.search(r"3(599|600|601)\.\d s ahead of", finding["what"])


def test_the_rights_of_the_manual_are_enough(user):
    klock = user("~klock:*", "~{klock:*", "&{klock:*", "+@read", "+@write", "+@scripting", "+@transaction", "+@pubsub",
                 "+@connection", "+time", "-@dangerous")
    found = examine(klock)
    assert severities(found, "warning", "danger") == {}
    assert severities(found, "ok").keys() == {"writes", "permissions", "clock", "round trip"}


@pytest.mark.parametrize("denied", [["-info"], ["-config"], ["-client"], ["-acl"], ["-info", "-config", "-client", "-acl"],
                                    ["-@dangerous"]])
def test_what_it_may_not_read_is_unknown(user, denied):  # R39
    found = examine(user("~*", "&*", "+@all", *denied), "--ttl", "200ms")
    # Also on a server that has no persistence and has just been started.
    assert severities(found, "danger").keys() <= {"round trip"} and found["permissions"]["severity"] == "ok"
    unknown = severities(found, "unknown").keys()
    if "-info" in denied:
        assert {"server", "role", "memory", "replication", "restart"} <= unknown
    if "-config" in denied:
        assert "min-replicas" in unknown
    if {"-info", "-config"} <= set(denied):
        assert {"eviction", "persistence"} <= unknown


@pytest.mark.parametrize("rights, said", [
    (["~*", "&*", "+@all", "-set", "-zadd"], "SET, ZADD"),
    (["~*", "&*", "+@all", "-time"], "TIME"),
    (["~klock:*", "&*", "+@all"], "keys {klock:NAME}:holders, {klock:NAME}:waiters"),
    (["~{klock:*", "&*", "+@all"], "keys klock:NAME"),
    (["%R~*", "&*", "+@all"], "keys klock:NAME"),
])
def test_missing_rights_are_a_danger_that_names_them(user, client, rights, said):  # R51
    klock = user(*rights)
    finding = examine(klock)["permissions"]
    assert finding["severity"] == "danger" and said in finding["what"]
    assert "KLOCK" not in finding["what"] and not re.search("[0-9a-f]{16}", finding["what"])
    assert klock.run("run", "n", "--", "true").status == 77  # it is true
    assert client.keys("*doctor*") == []


@pytest.mark.parametrize("rights, subject", [
    (["~klock:*", "~{klock:[a-z]*", "&*", "+@all"], "index"),
    (["~*", "resetchannels", "+@all"], "channels"),
    (["~*", "&*", "+@all", "-multi"], "channels"),
    (["~*", "&*", "+@all", "-exec"], "channels"),
    (["~*", "&*", "+@all", "-hgetall"], "status"),
    (["~*", "&*", "+@all", "-evalsha"], "scripts"),
    (["~*", "&*", "+@all", "-@scripting"], "scripts"),
])
def test_rights_that_locks_can_do_without_are_warnings(user, rights, subject):
    klock = user(*rights)
    found = examine(klock)
    assert found[subject]["severity"] == "warning" and severities(found, "danger") == {}
    assert klock.run("run", "n", "--", "true").status == 0


def test_neither_scripts_nor_transactions_are_a_danger(user):
    klock = user("~*", "&*", "+@all", "-@scripting", "-watch")
    found = examine(klock)
    assert found["transactions"]["severity"] == "danger" and "WATCH" in found["transactions"]["what"]
    assert klock.run("run", "n", "--", "true").status == 77


def test_with_the_rights_of_the_manual_for_those_without_scripts(user):
    klock = user("~klock:*", "~{klock:*", "&{klock:*", *"+watch +multi +exec +time +type +get +set +del +pttl +pexpire".split(),
                 *"+hget +hset +hdel +zrange +publish +zadd +zremrangebyscore".split())
    found = examine(klock)
    assert severities(found, "danger") == {} and found["scripts"]["severity"] == "warning"
    assert "+eval" in found["scripts"]["remedy"]


def test_another_prefix_means_other_rights(user):
    klock = user("~app:*", "~{app:*", "&*", "+@all")
    assert examine(klock)["permissions"]["severity"] == "danger"
    assert examine(klock, "--prefix", "app:")["permissions"]["severity"] == "ok"


def test_renamed_commands(make_klock, make_redis):
    finding = examine(make_klock(make_redis("--rename-command", "ZRANK", "").url))["permissions"]
    assert finding["severity"] == "danger" and "ZRANK" in finding["what"]


def test_an_index_that_is_something_else(on_redis, client):
    client.set("{klock:}:index", "x")
    finding = examine(on_redis)["index"]
    assert finding["severity"] == "warning" and "{klock:}:index" in finding["what"]


def test_unreachable_is_69(make_klock):
    done = make_klock(f"redis://127.0.0.1:{free_port()}").run("doctor", "--json")
    assert done.status == 69 and done.out == "" and done.err.startswith("klock: doctor: ")
    with FalseServer() as silent:
        assert make_klock(silent.url).run("doctor", "--store-timeout", "300ms").status == 69
    with FalseServer(answering(b"HTTP/1.1 400 Bad Request\r\n")) as web:
        assert make_klock(web.url).run("doctor").status == 69


@pytest.mark.parametrize("login", ["", ":geheim2@", "ann:geheim2@"])
def test_refused_login_is_77_without_the_password(make_klock, make_redis, login):
    server = make_redis("--requirepass", "richtig")
    done = make_klock(f"redis://{login}127.0.0.1:{server.port}").run("doctor")
    assert done.status == 77 and done.out == "" and "geheim2" not in done.err


def test_no_password_is_shown(user):  # C60
    klock = user("~x", "+@all")
    for words in (["doctor"], ["doctor", "--json"], ["doctor", "-v"]):
        done = klock.run(*words)
        assert done.status == 2 and "geheim" not in done.out + done.err


def false_info(info, reply=b"-ERR unknown command\r\n", pause=0):
    def serve(connection):
        for words in commands(connection):
            time.sleep(pause)
            connection.sendall(b"$%d\r\n%s\r\n" % (len(info), info) if words[0] == b"INFO" else reply)

    return serve


def test_hostile_answers(make_klock):
    long = "x" * 100_000
    texts = [f"redis_version:{EVIL}\nrole:{EVIL}\nmaxmemory_policy:{EVIL}\nmaxmemory:{long}\nused_memory:-1\n",
             f"role:master\nconnected_slaves:99999999999999999999\nslave0:{EVIL}\nuptime_in_seconds:1e9\n",
             f"role:master\nconnected_slaves:9223372036854775807\nslave0:ip={EVIL},lag=9223372036854775807,state={EVIL}\n",
             f"{long}\n:::\n\n\0\nmaxmemory:9223372036854775807\nused_memory:9223372036854775807\nrole:slave\nmaster_host:{EVIL}"]
    for text in texts:
        for reply in (b"-ERR unknown command\r\n", b"*2\r\n$1\r\n9\r\n:-9223372036854775808\r\n",
                      b"*2\r\n:9223372036854775807\r\n:9223372036854775807\r\n", b"$-1\r\n"):
            with FalseServer(false_info(text.encode(), reply)) as server:
                klock = make_klock(server.url)
                done = klock.run("doctor")
                assert done.status in (0, 1, 2), (done.status, done.err)
                assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f‮]", done.out + done.err)
                assert max(map(len, done.out.splitlines())) < 3000
                assert json.loads(klock.run("doctor", "--json").out)


def test_a_slow_server_is_a_danger_to_short_leases(make_klock):
    with FalseServer(false_info(b"role:master\r\n", b"+OK\r\n", pause=0.08)) as server:
        found = examine(make_klock(server.url), "--ttl", "200ms", "--store-timeout", "1m")
    assert found["round trip"]["severity"] == "danger"


def test_usage_is_64(store):
    for words in (["x"], ["--key", "k"], ["--ttl", "1ms"], ["--nonsense"]):
        assert store.run("doctor", *words).status == 64, words


def test_closed_stdout_is_an_error(store):
    ended = subprocess.run(f"{store.path} doctor >&-", shell=True, env=store.env, stderr=subprocess.DEVNULL, check=False)
    assert ended.returncode == 71


def test_good_directory(on_local, local_directory):
    on_local.hold("n")
    before = os.listdir(local_directory)
    found = examine(on_local)
    assert severities(found, "warning", "danger") == {}
    assert found.keys() == {"directory", "rights", "file system", "space"}
    assert found["directory"]["what"] == str(local_directory) and os.listdir(local_directory) == before


def test_a_directory_that_can_be_made_is_not_made(make_klock, tmp_path):
    assert severities(examine(make_klock(f"local:{tmp_path}/new")), "warning", "danger") == {}
    assert not (tmp_path / "new").exists()
    assert examine(make_klock(f"local:{tmp_path}/no/new"))["directory"]["severity"] == "danger"
    assert not (tmp_path / "no").exists()


def test_default_directory_that_can_be_made(make_klock, tmp_path, as_nobody):
    klock = make_klock()
    before = sorted(tmp_path.rglob("klock"))
    assert severities(examine(klock, start=lambda *words: as_nobody(klock, *words)), "danger") == {}
    assert sorted(tmp_path.rglob("klock")) == before


def test_a_file_is_no_directory(make_klock, tmp_path):
    (tmp_path / "file").touch()
    finding = examine(make_klock(f"local:{tmp_path}/file"))["directory"]
    assert finding["severity"] == "danger" and "not a directory" in finding["what"]


def test_a_directory_of_others(make_klock, tmp_path, as_nobody):
    (tmp_path / "theirs").mkdir(mode=0o755)
    for path in ("theirs", "theirs/new"):
        klock = make_klock(f"local:{tmp_path}/{path}")
        finding = examine(klock, start=lambda *words, klock=klock: as_nobody(klock, *words))["directory"]
        assert finding["severity"] == "danger" and str(tmp_path) in finding["what"]


def test_places_where_no_file_can_be_made(make_klock, tmp_path):
    (tmp_path / "link").symlink_to("nowhere")
    for path in (f"{tmp_path}/link", "/proc", "/proc/klock", "/proc/self/klock"):
        klock = make_klock(f"local:{path}")
        assert klock.run("run", "n", "--", "true").status in (71, 77, 78), path
        assert examine(klock)["directory"]["severity"] == "danger", path


def test_a_directory_where_everybody_may_delete(on_local, local_directory):
    local_directory.chmod(0o777)
    assert examine(on_local)["rights"]["severity"] == "warning"
    local_directory.chmod(0o1777)
    assert examine(on_local)["rights"]["severity"] == "ok"


def test_default_directory_that_others_may_write_to(make_klock, as_nobody):
    klock = make_klock()
    directory = f"{klock.directory}/runtime/klock"
    os.mkdir(directory)
    if os.geteuid() == 0:
        os.chown(directory, 65534, 65534)
    os.chmod(directory, 0o777)
    finding = examine(klock, start=lambda *words: as_nobody(klock, *words))["directory"]
    assert finding["severity"] == "danger" and "written to by others" in finding["what"]


@pytest.mark.parametrize("options, subject", [("ro", "file system"), ("size=4k,nr_inodes=1", "space")])
def test_file_systems_without_room(make_klock, tmp_path, options, subject):
    directory = tmp_path / "mounted"
    directory.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", directory], check=False).returncode != 0:
        pytest.skip("may not mount a file system")
    try:
        found = examine(make_klock(f"local:{directory}"))
        assert found[subject]["severity"] == "danger" and "tmpfs" in found["file system"]["what"]
    finally:
        subprocess.run(["umount", directory], check=True)
