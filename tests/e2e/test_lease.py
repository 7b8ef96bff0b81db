# SPDX-License-Identifier: MIT
"""Leases: kept, lost, taken back, bounded. What a run does when its record is not what it was."""
import signal
import threading
import time

import pytest
from support.proc import SLOW, alive, group, holds_for, wait_until
from support.servers import Proxy

FAMILY = "sleep 1001 & sleep 1002"


def test_deleted_key_stops_the_whole_group_with_79(on_redis, client):  # C1, R7
    holder = on_redis.hold("n", "--ttl", "3s", command=FAMILY)
    pgid = holder.command
    client.delete("klock:n")
    assert holder.wait(4) == 79
    assert not group(pgid) and not client.exists("klock:n")
    assert holder.err.startswith("klock: n: ") and "lost" in holder.err


def test_loss_is_79_though_the_command_then_ends_well(on_redis, client):  # C24
    holder = on_redis.hold("n", "--ttl", "1s", command="trap 'exit 0' TERM; while :; do sleep 0.05; done")
    client.delete("klock:n")
    assert holder.wait() == 79


def test_taken_key_is_loss_and_the_new_owner_is_untouched(on_redis, client):  # R7, R10, C41
    holder = on_redis.hold("n", "--ttl", "3s", command=FAMILY)
    pgid = holder.command
    client.set("klock:n", "somebody-else", px=60000)
    assert holder.wait(4) == 79
    assert not group(pgid) and client.get("klock:n") == "somebody-else"
    assert client.pttl("klock:n") > 50000


def test_late_end_does_not_release_the_next_holder(on_redis, client):  # C41
    holder = on_redis.hold("n", "--ttl", "60s", command="read x; true", stdin=-1)
    client.delete("klock:n")
    following = on_redis.hold("n")
    token = client.get("klock:n")
    holder.popen.stdin.close()
    assert holder.wait() == 79
    assert client.get("klock:n") == token and following.status is None


def test_lost_lease_tells_who_has_it_now(on_redis, client):  # R21
    holder = on_redis.hold("n", "--ttl", "2s")
    client.delete("klock:n")
    following = on_redis.hold("n")
    assert holder.wait() == 79 and str(following.pid) in holder.err


def test_on_lost_warn_lets_the_command_finish_and_still_says_79(on_redis, client):
    holder = on_redis.hold("n", "--ttl", "1s", "--on-lost", "warn", command="read x; echo done", stdin=-1)
    client.delete("klock:n")
    wait_until(lambda: "lost" in holder.err, what="the warning")
    assert holds_for(lambda: holder.status is None, 0.3)
    holder.popen.stdin.close()
    assert holder.wait() == 79 and holder.out == "up\ndone\n"


def test_on_lost_warn_survives_a_silent_server(on_redis, redis):
    holder = on_redis.hold("n", "--ttl", "900ms", "--on-lost", "warn", command="read x; echo done", stdin=-1)
    redis.freeze()
    wait_until(lambda: "lost" in holder.err, what="the warning")
    holder.popen.stdin.close()
    wait_until(lambda: "done" in holder.out)
    redis.thaw()
    assert holder.wait() == 79


def test_vanished_record_is_taken_back_with_on_gone_reclaim(on_redis, client):  # R8
    holder = on_redis.hold("n", "--ttl", "3s", "--on-gone", "reclaim", command="echo $KLOCK_FENCE; read x; true", stdin=-1)
    token = client.get("klock:n")
    client.delete("klock:n")
    wait_until(lambda: client.get("klock:n") == token, what="taken back")
    fence = int(holder.out.split()[1])
    assert on_redis.state("n")["holders"][0]["fence"] == fence
    holder.popen.stdin.close()
    assert holder.wait() == 0
    assert holder.err.startswith("klock: n: "), "the gap is told"


def test_record_is_not_taken_back_when_somebody_was_in_between(on_redis, client):
    holder = on_redis.hold("n", "--ttl", "3s", "--on-gone", "reclaim")
    client.delete("klock:n")
    assert on_redis.run("run", "-n", "n", "--", "true").status == 0
    assert holder.wait() == 79 and not client.exists("klock:n")


def test_max_hold_is_124(every_store):  # R6
    running = every_store.start("run", "--max-hold", "500ms", "n", "--", "sh", "-c", FAMILY)
    pgid = running.command
    assert running.wait() == 124 and 0.45 < running.seconds < 1 + SLOW
    assert not group(pgid) and every_store.is_free("n") and running.err.startswith("klock: n: ")


def test_max_hold_does_not_count_the_waiting(store):
    store.hold("n", command="sleep 0.6")
    assert store.run("run", "--max-hold", "500ms", "n", "--", "true").status == 0


def test_min_hold_keeps_the_name_taken_and_returns_at_once(every_store):  # C43, R57
    first = every_store.run("run", "--min-hold", "1500ms", "n", "--", "true")
    assert first.status == 0 and first.seconds < 0.7 * SLOW
    busy = every_store.run("run", "-n", "n", "--", "echo", "again")
    assert (busy.status, busy.out) == (75, "")
    assert every_store.state("n")["state"] == "cooldown"
    waiter = every_store.run("run", "-w", "5", "n", "--", "true")
    assert waiter.status == 0 and waiter.ended - first.started > 1.4
    assert waiter.ended - first.started < 1.7 + SLOW


def test_min_hold_longer_than_the_ttl(every_store):
    first = every_store.run("run", "--ttl", "500ms", "--min-hold", "1600ms", "n", "--", "true")
    time.sleep(max(0.0, first.started + 1.0 - time.monotonic()))
    assert every_store.run("run", "-n", "n", "--", "true").status == 75
    wait_until(lambda: every_store.is_free("n"), what="free after the cooldown")
    assert time.monotonic() - first.started > 1.5


def test_min_hold_shorter_than_the_command_adds_nothing(store):
    assert store.run("run", "--min-hold", "100ms", "n", "--", "sleep", "0.2").status == 0
    assert store.is_free("n")


@pytest.mark.parametrize("command", ["exit 127", "exit 126", "kill -KILL $$"])
def test_min_hold_counts_however_a_started_command_ends(store, command):
    store.run("run", "--min-hold", "1h", "n", "--", "sh", "-c", command)
    assert store.state("n")["state"] == "cooldown"


def test_min_hold_outlives_a_killed_klock(every_store):
    holder = every_store.hold("n", "--min-hold", "1h", "-k", "0.2")
    holder.send(signal.SIGKILL)
    wait_until(lambda: every_store.state("n")["state"] == "cooldown", what="released by the guard")


def test_ttl_is_honoured_and_renewed(on_redis, client):  # C34, C30
    holder = on_redis.hold("n", "--ttl", "3s")
    lowest = highest = client.pttl("klock:n")
    end = time.monotonic() + 5
    while time.monotonic() < end:
        left = client.pttl("klock:n")
        lowest, highest = min(lowest, left), max(highest, left)
        time.sleep(0.01)
    assert 0 < lowest and highest <= 3000 and holder.status is None
    assert lowest > 900, "renewed every third of it"


def test_default_lease_is_15_s(on_redis, client):
    on_redis.hold("n")
    assert 14000 < client.pttl("klock:n") <= 15000


def test_flushed_scripts_matter_to_nobody(on_redis, client):  # R37
    holder = on_redis.hold("n", "--ttl", "2s", command="read x; true", stdin=-1)
    waiter = on_redis.queue("n", 1)[0]
    for _ in range(60):
        client.script_flush()
        time.sleep(0.06)
    assert not on_redis.is_free("n")
    client.script_flush()
    holder.popen.stdin.close()
    assert holder.wait() == 0 and holder.err == "" and waiter.wait() == 0


def test_server_restart_with_its_data_disturbs_nothing(make_klock, make_redis):  # R37
    server = make_redis("--appendonly", "yes", "--appendfsync", "always")
    klock = make_klock(server.url)
    holder = klock.hold("n", "--ttl", "3s", command="read x; true", stdin=-1)
    server.restart()
    client = server.client()
    wait_until(lambda: client.pttl("klock:n") > 2000, what="renewed at the new server")
    holder.popen.stdin.close()
    assert holder.wait() == 0 and not client.exists("klock:n")


def test_server_restart_without_its_data_is_loss(on_redis, redis):
    holder = on_redis.hold("n", "--ttl", "1s")
    redis.restart()
    assert holder.wait() == 79 and on_redis.is_free("n")


def test_slow_answer_to_the_acquisition_leaves_no_key(on_redis, client):  # R18
    client.client_pause(1200)
    assert on_redis.run("run", "n", "--", "true").status == 0
    assert not client.exists("klock:n")
    client.client_pause(1500)
    late = on_redis.run("run", "--store-timeout", "300ms", "n", "--", "echo", "no")
    assert (late.status, late.out) == (69, "") and late.seconds < 0.6 + SLOW
    wait_until(lambda: not client.exists("klock:n"), what="no key is left")
    assert on_redis.run("run", "-w", "2", "n", "--", "true").status == 0


def test_lost_reply_to_the_acquisition(make_klock, redis, client):
    with Proxy(redis) as proxy:
        proxy.lose_reply()
        done = make_klock(proxy.url).run("run", "-n", "n", "--", "true")
        assert proxy.lost == 1 and done.status in (0, 69)
    wait_until(lambda: not client.exists("klock:n"), what="no key is left")


def test_lost_reply_to_a_renewal_disturbs_nothing(make_klock, redis, client):  # R2
    with Proxy(redis) as proxy:
        holder = make_klock(proxy.url).hold("n", "--ttl", "3s", command="read x; true", stdin=-1)
        for lost in range(1, 4):
            proxy.lose_reply()
            wait_until(lambda n=lost: proxy.lost == n, what="a reply was lost")
        wait_until(lambda: client.pttl("klock:n") > 2000, what="renewed")
        holder.popen.stdin.close()
        assert holder.wait() == 0


def test_lost_reply_to_the_release(make_klock, redis, client):
    with Proxy(redis) as proxy:
        holder = make_klock(proxy.url).hold("n", "--ttl", "30s", command="read x; exit 3", stdin=-1)
        proxy.lose_reply()
        holder.popen.stdin.close()
        assert holder.wait() == 3
    assert not client.exists("klock:n")


def test_busy_script_of_somebody_else_is_no_loss(on_redis, redis, client, signal_log):  # R2
    client.config_set("lua-time-limit", 50)
    holder = on_redis.start("run", "--ttl", "3s", "n", "--", *signal_log.command)
    signal_log.wait_ready()
    spinner = threading.Thread(target=spin, args=(redis,))
    spinner.start()
    time.sleep(1.4)  # over a renewal
    client.script_kill()
    spinner.join()
    wait_until(lambda: client.pttl("klock:n") > 2000, what="renewed")
    signal_log.end()
    assert holder.wait() == 0 and signal_log.count(signal.SIGTERM) == 0


def spin(server):
    try:
        server.client().eval("while true do end", 0)
    except Exception:  # killed, as intended
        pass


def test_release_with_the_server_gone_keeps_the_commands_status_and_says_so(on_redis, redis):
    holder = on_redis.hold("n", "--ttl", "3s", command="read x; exit 5", stdin=-1)
    redis.kill()
    holder.popen.stdin.close()
    assert holder.wait(8) == 5
    assert holder.err.startswith("klock: n: ") and redis.url in holder.err


def test_short_lease_and_a_busy_machine(on_redis, sections, client):  # C30
    started = [on_redis.start("run", "--ttl", "1s", "n", "--", *sections.command(f"s{i}", 150)) for i in range(12)]
    assert [running.wait(20) for running in started] == [0] * 12
    assert len(sections.check()) == 12


@pytest.mark.parametrize("delay", [0.0, 0.3, 0.7])
def test_reconnects_when_its_connection_is_killed(on_redis, client, delay):
    holder = on_redis.hold("n", "--ttl", "3s", command="read x; true", stdin=-1)
    time.sleep(delay)
    for kind in ("normal", "pubsub"):
        client.client_kill_filter(_type=kind, skipme=True)
    wait_until(lambda: client.pttl("klock:n") > 2400, what="renewed")
    assert alive(holder.command)
    holder.popen.stdin.close()
    assert holder.wait() == 0


def test_slow_answer_does_not_cost_the_lease(on_redis, redis):
    on_redis.run("run", "n", "--", "true")  # the script is known
    redis.freeze()
    thaw = threading.Timer(1.3, redis.thaw)  # more than a third of the lease, less than half of it
    thaw.start()
    done = on_redis.run("run", "--ttl", "3s", "n", "--", "sh", "-c", "sleep 2.5; echo ran")
    thaw.join()
    assert (done.status, done.out, done.err) == (0, "ran\n", "")


def test_command_has_a_whole_lease_though_the_acquisition_was_answered_late(on_redis, redis):
    on_redis.run("run", "n", "--", "true")  # the script is known
    redis.freeze()
    thaw = threading.Timer(1.4, redis.thaw)
    thaw.start()
    done = on_redis.run("run", "--ttl", "2s", "n", "--", "sh", "-c", f"sleep {SLOW * 0.7}; echo ran")
    thaw.join()
    assert (done.status, done.out, done.err) == (0, "ran\n", "")
