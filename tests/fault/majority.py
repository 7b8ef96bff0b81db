# SPDX-License-Identifier: MIT
"""Independent servers that decide by majority: see stores.py. None of them loses what it has acknowledged: one that does
has to stay away for a lease, as the manual says."""
import contextlib
import itertools
import pathlib

from stores import DURABLE, SLOW_MS, Servers
from support.independent import Independent
from support.proc import wait_until
from ways import Ways

SERVERS = 3
MAJORITY = range(SERVERS // 2 + 1)


class Redlock(Servers):
    """What befalls the ways of a host befalls in turn those to one server, to the next, and to a majority."""
    weights = {"cut": 6, "blackhole": 5, "delay": 5, "restart": 3, "freeze_server": 3, "freeze_majority": 2}
    lengths = {"cut": (0, 300), "blackhole": (200, 3000), "delay": (500, 3000), "freeze_server": (100, 3000),
               "freeze_majority": (100, 2500), "restart": (0, 1000)}
    on_hosts = ("cut", "blackhole", "delay")
    modes = frozenset(["exclusive", "shared"])
    in_order = False  # nobody queues

    def __init__(self, directory):
        self._site = Independent(pathlib.Path(directory), SERVERS, *DURABLE)
        self.servers = self._site.servers
        self._ways = [Ways(server.port) for server in self.servers]
        self._next = itertools.cycle(range(SERVERS))
        self._next_ways = itertools.cycle([*([server] for server in range(SERVERS)), MAJORITY])

    def url(self, host):
        return "redlock://" + ",".join(f"127.0.0.1:{ways.ports[host]}" for ways in self._ways)

    def _disturb(self, host, *words):
        undo = contextlib.ExitStack()
        for server in next(self._next_ways):
            undo.callback(self._ways[server].disturb(host, *words))
        return undo.close

    def begin_cut(self, host):
        return self._disturb(host, "cut")

    def begin_blackhole(self, host):
        return self._disturb(host, "blackhole")

    def begin_delay(self, host):
        return self._disturb(host, "delay", SLOW_MS)

    def _freeze(self, *servers):
        undo = contextlib.ExitStack()
        for server in servers:
            self.servers[server].freeze()
            undo.callback(self.servers[server].thaw)
        return undo.close

    def begin_freeze_server(self):
        return self._freeze(next(self._next))

    def begin_freeze_majority(self):
        return self._freeze(*MAJORITY)

    def begin_restart(self):
        server = self.servers[next(self._next)]
        server.kill()
        return server.start

    def leftovers(self):
        """Votes that could not be given back go with their lease."""
        left = super().leftovers
        with contextlib.suppress(AssertionError):
            wait_until(lambda: not left(), timeout=10, what="all leases have ended")
        return left()

    def end(self):
        for ways in self._ways:
            ways.end()
        self._site.end()
