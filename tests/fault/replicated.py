# SPDX-License-Identifier: MIT
"""Stores whose master is replaced when it fails: see stores.py. A fault is over when another one is in charge, the old one
is its replica, and all are in step."""
import contextlib
import pathlib

import redis
from plan import NAMES
from stores import Servers, left_in
from support import clusters, sentinels
from support.proc import wait_until

CROWDED = "klock:" + next(iter(NAMES))


class Replicated(Servers):
    site = None

    @property
    def servers(self):
        return self.site.servers

    def url(self, host):
        return self.site.url

    def end(self):
        self.site.end()

    def _master(self):
        raise NotImplementedError

    def _has_other(self, old):
        """Whether one other than `old` is in charge."""
        raise NotImplementedError

    def _await_other(self, old, ask_again):
        for _ in range(6):
            with contextlib.suppress(AssertionError):
                return wait_until(lambda: self._has_other(old), timeout=15, what="another one", pause=0.05)
            ask_again()
        raise AssertionError(f"{old.port} is in charge still")

    def _is_whole(self):
        raise NotImplementedError

    def _end_with(self, old, revive, ask_again=lambda: None):
        """`ask_again`: for a planned change, which servers that are slow just then give up."""
        def end():
            self._await_other(old, ask_again)
            revive()
            wait_until(self._is_whole, timeout=120, what="the servers are in step", pause=0.05)
        return end

    def begin_kill_master(self):
        old = self._master()
        old.kill()
        return self._end_with(old, old.start)

    def begin_freeze_master(self):
        old = self._master()
        old.freeze()
        return self._end_with(old, old.thaw)


class Sentinel(Replicated):
    weights = {"kill_master": 2, "freeze_master": 2, "switch_master": 2}

    def __init__(self, directory):
        self.site = sentinels.Sentinels(pathlib.Path(directory))

    def _master(self):
        return self.site.master()

    def _has_other(self, old):
        return self.site.named() not in (None, old)

    def begin_switch_master(self):
        """As planned; the old one goes on as a master until it learns of it."""
        def ask():
            with contextlib.suppress(redis.ResponseError):  # one goes on already
                self.site.sentinels[0].client().execute_command("SENTINEL", "FAILOVER", sentinels.NAME)
        old = self._master()
        ask()
        return self._end_with(old, lambda: None, ask)

    def _is_whole(self):
        master = self.site.named()
        try:
            roles = {server: self.site.client(server).role() for server in self.servers}
        except redis.exceptions.RedisError:
            return False
        replicas = [role for server, role in roles.items() if server is not master]
        return (master in roles and roles[master][0] == "master" and
                all(role[0] == "slave" and int(role[2]) == master.port and role[3] == "connected" for role in replicas))

    def leftovers(self):
        return left_in(self.site.master().client())


class Cluster(Replicated):
    """What befalls the master of the crowded lock befalls some of the others too."""
    weights = {"kill_master": 2, "freeze_master": 2, "relieve_master": 2}

    def __init__(self, directory):
        self.site = clusters.Cluster(pathlib.Path(directory))

    def _master(self):
        return self.site.master_of(CROWDED)

    def _has_other(self, old):
        return self.site.find_master_of(CROWDED, but=old)

    def begin_relieve_master(self):
        """As planned: the old one says when it has told its replica all."""
        old = self._master()
        replica = self.site.client(self.site.replica_of(old))

        def ask():
            with contextlib.suppress(redis.ResponseError):  # it is a master by now
                replica.execute_command("CLUSTER", "FAILOVER")
        ask()
        return self._end_with(old, lambda: None, ask)

    def _is_whole(self):
        return self.site.is_whole()

    def leftovers(self):
        masters = [server for server in self.servers if self.site.client(server).role()[0] == "master"]
        return [key for server in masters for key in left_in(server.client())]
