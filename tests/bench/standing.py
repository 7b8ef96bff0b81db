# SPDX-License-Identifier: MIT
"""What those cost who only hold, or only wait."""
import re
import time

from processes import cpu_ms, family, ports_of, pss_mib
from queues import Queue
from tools import MAIN

LEASE = 15
# Each look at the memory of a process takes a while.
SAMPLE = 20


class Window:
    """What happens on the servers and in processes while `watch()` lasts."""

    def __init__(self, bench):
        self._bench = bench
        self.calls, self.requests, self.seconds = [], 0.0, 0.0

    def watch(self, pids, seconds):
        """{key: CPU in ms a minute} of {key: pids}."""
        etcd = self._bench.peers.etcd
        asked = etcd.requests() if etcd else 0
        with self._bench.server.monitor() as monitor:
            before = {key: cpu_ms(some) for key, some in pids.items()}
            begin = time.monotonic()
            time.sleep(seconds)
            self.calls = monitor.calls()
            self.seconds = time.monotonic() - begin
            used = {key: cpu_ms(some) - before[key] for key, some in pids.items()}
        self.requests = etcd.requests() - asked if etcd else 0
        return {key: ms * 60 / self.seconds for key, ms in used.items()}

    def from_ports(self, ports):
        """How many of the calls came from there, and how many from elsewhere."""
        senders = [int(re.search(r"^\S+ \[\d+ \S+:(\d+)\]", line)[1]) for line in self.calls]
        theirs = sum(port in ports for port in senders)
        return theirs, len(senders) - theirs


def standing(bench, queues, seconds):
    """{(name, role): (CPU ms a minute, PSS MiB, commands to the server in a lease time)} of one holder, and one waiter, of
    {name: queue}; at most one of them on Redis, or on etcd, where who asks cannot be told apart."""
    roles = lambda queue: {"holder": [queue.holder], "waiter": queue.waiters}
    pids = {(name, role): [pid for process in processes for pid in family(process.pid)]
            for name, queue in queues.items() for role, processes in roles(queue).items()}
    window = Window(bench)
    ports = {name: ports_of(pids[name, "holder"]) for name in queues}
    cpu = window.watch(pids, seconds)
    found = {}
    for name, queue in queues.items():
        commands = {"holder": 0.0, "waiter": 0.0}
        if "redis" in name:
            mine, others = window.from_ports(ports[name] | ports_of(pids[name, "holder"]))
            commands = {"holder": mine, "waiter": others / len(queue.waiters)}
        elif name == "etcdctl":
            commands = dict.fromkeys(commands, window.requests / (1 + len(queue.waiters)))
        for role, processes in roles(queue).items():
            memory = [pss_mib(family(process.pid)) for process in processes[:SAMPLE]]
            found[name, role] = (cpu[name, role] / len(processes), sum(memory) / len(memory),
                                 commands[role] * LEASE / window.seconds)
    return found


def idle(bench, report):
    waiters, waiters_of_peers = (10, 4) if bench.quick else (50, 10)
    seconds, seconds_of_peers = (4, 4) if bench.quick else (30, 10)
    rows = []
    # What asks all the time has the machine to itself, but for those who hardly use it.
    for group in (MAIN, ["etcdctl", "redis-py"], ["redis-cli"]):
        names = [name for name in group if name in bench.tools]
        peers = group is not MAIN
        queues = {name: Queue(bench, name, waiters_of_peers if peers else waiters, at_once=10) for name in names}
        found = standing(bench, queues, seconds_of_peers if peers else seconds)
        rows += [[f"{name} {role}", *figures] for (name, role), figures in found.items()]
        for queue in queues.values():
            queue.release()
    report.add("idle", f"1 holder and {waiters} waiters for {seconds} s (peers: {waiters_of_peers} for {seconds_of_peers} s), "
               f"lease {LEASE} s (etcdctl: 10 s)", ["who", "CPU ms/min", "PSS MiB", f"commands in {LEASE} s"], rows)
