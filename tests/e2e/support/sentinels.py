# SPDX-License-Identifier: MIT
"""A master with two replicas, and three Sentinels that watch them."""
import os
import subprocess

import redis

from .ports import free_port
from .proc import wait_until
from .servers import RedisServer

NAME = "mymaster"


class Sentinel:
    """A redis-sentinel of the test's own."""

    def __init__(self, directory, master_port, quorum, password=None, master_password=None, tls=None):
        self.directory, self.port = str(directory), free_port()
        lines = [f"port {self.port}", "bind 127.0.0.1", f"dir {directory}", f"logfile {directory}/sentinel.log",
                 f"sentinel monitor {NAME} 127.0.0.1 {master_port} {quorum}",
                 f"sentinel down-after-milliseconds {NAME} 1500", f"sentinel failover-timeout {NAME} 3000",
                 f"sentinel parallel-syncs {NAME} 2"]
        if password:
            lines += [f"requirepass {password}"]
        if master_password:
            lines += [f"sentinel auth-pass {NAME} {master_password}"]
        self.tls_port = free_port() if tls else None
        if tls:
            words = ["--tls-port", str(self.tls_port), "--tls-replication", "yes", *tls]
            lines += [f"{name[2:]} {value}" for name, value in zip(words[::2], words[1::2])]
        self.password = password
        self.config = os.path.join(self.directory, "sentinel.conf")
        with open(self.config, "w", encoding="ascii") as file:
            file.write("\n".join(lines) + "\n")
        self.popen = None
        self.start()

    def start(self):
        self.popen = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "redis-server", self.config, "--sentinel"],
                                      stdin=subprocess.DEVNULL)
        wait_until(self._answers, timeout=10, what="a Sentinel answers")

    def client(self):
        return redis.Redis(port=self.port, password=self.password, decode_responses=True, socket_timeout=2)

    def _answers(self):
        try:
            return self.client().ping()
        except redis.exceptions.RedisError:
            return False

    def master(self):
        return self.client().sentinel_master(NAME)

    def kill(self):
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()


class Sentinels:
    """`servers` are the Redis servers; `sentinels` know them all when this has been made."""

    def __init__(self, directory, password=None, server_password=None, replicas=2, tls=None):
        """`tls`: they speak it with each other and with us, with these options."""
        self.server_password, self.tls = server_password, tls
        login = ["--requirepass", server_password, "--masterauth", server_password] if server_password else []
        self.servers = [self._server(directory, "master", tls, *login)]
        for number in range(replicas):
            self.servers.append(self._server(directory, f"replica{number}", tls, "--replicaof", "127.0.0.1",
                                             str(self.named_port(self.servers[0])), *login))
        wait_until(lambda: self._online() == replicas, timeout=20, what="the replicas are in step")
        self.sentinels = []
        for number in range(3):
            place = directory / f"sentinel{number}"
            place.mkdir()
            self.sentinels.append(Sentinel(place, self.named_port(self.servers[0]), 2, password, server_password, tls))
        wait_until(self._ready, timeout=20, what="the Sentinels know each other and the replicas")

    @staticmethod
    def _server(directory, name, tls, *options):
        place = directory / name
        place.mkdir()
        secure = ["--tls-replication", "yes"] if tls else []
        return RedisServer(place, "--repl-diskless-sync-delay", "0", *secure, *options, tls=tls)

    @staticmethod
    def named_port(server):
        """The one that the Sentinels name, and are to be asked at."""
        return server.tls_port or server.port

    def client(self, server):
        return server.client(password=self.server_password, socket_timeout=2)

    def _online(self):
        info = self.client(self.servers[0]).info("replication")
        return sum(value["state"] == "online" for key, value in info.items() if key.startswith("slave") and isinstance(value, dict))

    def _ready(self):
        replicas = len(self.servers) - 1
        return all(state["num-other-sentinels"] == 2 and state["num-slaves"] == replicas and
                   state["flags"] == "master" for state in (one.master() for one in self.sentinels))

    @property
    def url(self):
        hosts = ",".join(f"127.0.0.1:{self.named_port(one)}" for one in self.sentinels)
        login = f":{self.server_password}@" if self.server_password else ""
        return f"redis{'s' if self.tls else ''}-sentinel://{login}{hosts}/{NAME}"

    def named(self):
        """The server that a majority of the Sentinels name as the master."""
        ports = []
        for sentinel in self.sentinels:
            try:
                ports.append(int(sentinel.client().sentinel_get_master_addr_by_name(NAME)[1]))
            except redis.exceptions.RedisError:
                pass
        for server in self.servers:
            if ports.count(self.named_port(server)) >= 2:
                return server
        return None

    def master(self):
        """The server in charge, once it says so itself."""
        def look():
            server = self.named()
            try:
                return server if server and self.client(server).role()[0] == "master" else None
            except redis.exceptions.RedisError:
                return None
        return wait_until(look, timeout=30, what="a master")

    def await_failover(self, old):
        return wait_until(lambda: (lambda new: new if new is not old else None)(self.master()), timeout=30,
                          what="another master")

    def end(self):
        for one in self.sentinels + self.servers:
            if hasattr(one, "thaw"):
                one.thaw()
            one.kill()
