# SPDX-License-Identifier: MIT
"""The stores: real servers (those of tests/e2e/support), the faults that befall them, and what may be left in them.

A fault is a method `begin_KIND()` that returns when it has begun; what it returns undoes it, and returns when all is as it
was. One at a time befalls a store, or a host (`begin_KIND(host)`). Network faults are for `direct` and `redlock`: Sentinels
and a Cluster tell klock the addresses of their servers themselves."""
import pathlib
import resource
import time

import plan
from support.runner import lock_files
from support.servers import RedisServer
from ways import Ways

DURABLE = ("--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0")
# What lasts, and is bounded: the last fence of each name, the log, statistics, and the index of names; for a minute the
# wishes of administrators.
LONGEST_PLACE_MS = 40_000
# Longer than a renewal may take; shorter than half of each lease, so that something can be acquired.
SLOW_MS = 450
LASTING = (":fence", "events", "groups", "index", "stats", ":requests")


class Store:
    weights, lengths = {}, {}
    on_hosts = ()  # the kinds that befall a host
    modes = plan.MODES
    in_order = True  # who came first is served first

    def url(self, host):
        raise NotImplementedError

    def end(self):
        pass

    def leftovers(self):
        """What should not be there any more."""
        raise NotImplementedError


class Local(Store):
    def __init__(self, directory):
        self._locks = pathlib.Path(directory, "locks")
        self._locks.mkdir()

    def url(self, host):
        return f"local:{self._locks}"

    def leftovers(self):
        return lock_files(self._locks)


def left_in(client):
    """Keys of locks and holders, and what does not expire. A waiter that died keeps its place until it can't be
    reconnecting any more."""
    left = []
    for key in client.keys("*"):
        msec = client.pttl(key)
        waiting = key.endswith((":queue", ":waiters")) and msec <= LONGEST_PLACE_MS
        if msec == -1 or (msec >= 0 and not waiting and not any(word in key for word in LASTING)):
            left.append(key)
    return left


class Servers(Store):
    """Some RedisServers."""
    servers = ()

    def leftovers(self):
        return [key for server in self.servers for key in left_in(server.client())]


class Direct(Servers):
    weights = {"fade": 12, "cut": 6, "blackhole": 4, "delay": 5, "restart": 2, "wipe": 1, "freeze_server": 2, "full_disk": 1}
    lengths = {"cut": (0, 300), "blackhole": (200, 3000), "delay": (1500, 4000), "freeze_server": (100, 2500),
               "restart": (0, 500), "wipe": (0, 500), "full_disk": (100, 500)}
    on_hosts = ("fade", "cut", "blackhole", "delay")

    def __init__(self, directory):
        place = pathlib.Path(directory, "server")
        place.mkdir()
        self._server = RedisServer(place, *DURABLE)
        self.servers = (self._server,)
        self._ways = Ways(self._server.port)

    def url(self, host):
        return f"redis://127.0.0.1:{self._ways.ports[host]}"

    def begin_cut(self, host):
        return self._ways.disturb(host, "cut")

    def begin_blackhole(self, host):
        return self._ways.disturb(host, "blackhole")

    def begin_delay(self, host, msec=SLOW_MS):
        return self._ways.disturb(host, "delay", msec)

    def begin_restart(self):
        self._server.kill()
        return self._server.start

    def begin_wipe(self):
        self._server.kill()
        for file in sorted(pathlib.Path(self._server.directory).rglob("*"), reverse=True):
            if ".aof" in file.name or file.name == "dump.rdb":
                file.unlink()
        return self._server.start

    def begin_freeze_server(self):
        self._server.freeze()
        return self._server.thaw

    def begin_full_disk(self):
        """The file can't grow any more: a server that has to write at once ends."""
        pid = self._server.popen.pid
        size = sum(file.stat().st_size for file in pathlib.Path(self._server.directory).rglob("*.aof"))
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

        def end():
            if self._server.popen.poll() is None:
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
                time.sleep(0.05)
            if self._server.popen.poll() is not None:
                self._server.start()
        return end

    def end(self):
        self._ways.end()
        self._server.thaw()
        self._server.kill()
