# SPDX-License-Identifier: MIT
"""A Redis Cluster: three masters, each with a replica."""
import redis

from .ports import free_port
from .proc import wait_until
from .servers import RedisServer

SLOTS = 16384


def slot_of(key):
    """CRC16 of the hash tag, bit by bit."""
    start = key.find("{")
    end = key.find("}", start + 1)
    if start >= 0 and end > start + 1:
        key = key[start + 1:end]
    crc = 0
    for byte in key.encode():
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021) & 0xFFFF if crc & 0x8000 else crc << 1
    return crc % SLOTS


class Cluster:
    """`servers`: the masters, then a replica of each, as they begin."""

    def __init__(self, directory, masters=3, replicas=True, password=None):
        self.password = password
        login = ["--requirepass", password, "--masterauth", password] if password else []
        self.servers, self._bus, self._copies = [], {}, 2 if replicas else 1
        for number in range(masters * (2 if replicas else 1)):
            place = directory / f"node{number}"
            place.mkdir()
            bus = free_port()
            server = RedisServer(place, "--cluster-enabled", "yes", "--cluster-port", str(bus),
                                 "--cluster-node-timeout", "1500", "--repl-diskless-sync-delay", "0",
                                 "--cluster-allow-replica-migration", "no", *login)
            self.servers.append(server)
            self._bus[server] = bus
        self._form(masters)

    def _form(self, masters):
        first = self.servers[0]
        share = SLOTS // masters + 1
        for number in range(masters):
            self.client(self.servers[number]).execute_command(
                "CLUSTER", "ADDSLOTSRANGE", number * share, min((number + 1) * share, SLOTS) - 1)
        for number, server in enumerate(self.servers):
            self.client(server).execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            if server is not first:
                self.client(server).execute_command("CLUSTER", "MEET", "127.0.0.1", first.port, self._bus[first])
        wait_until(lambda: all(self._knows(server) == len(self.servers) for server in self.servers), timeout=60,
                   what="the servers know each other")
        for number, server in enumerate(self.servers[masters:]):
            master = self.id_of(self.servers[number])
            wait_until(lambda server=server, master=master: self._replicate(server, master), timeout=30,
                       what="a replica is taken")
        wait_until(self.is_whole, timeout=60, what="the Cluster is whole")

    def client(self, server, **options):
        return server.client(password=self.password, socket_timeout=2, **options)

    def _knows(self, server):
        # Without those that are still shaking hands.
        lines = self.client(server).execute_command("CLUSTER", "NODES")
        if isinstance(lines, dict):
            return sum("handshake" not in node["flags"] for node in lines.values())
        return sum("handshake" not in line for line in lines.splitlines())

    def _replicate(self, server, master):
        try:
            return self.client(server).execute_command("CLUSTER", "REPLICATE", master) in (True, "OK")
        except redis.exceptions.ResponseError:
            return False

    def id_of(self, server):
        return self.client(server).execute_command("CLUSTER", "MYID")

    def info(self, server):
        answer = self.client(server).execute_command("CLUSTER", "INFO")
        return answer if isinstance(answer, dict) else dict(line.split(":") for line in answer.split())

    def is_whole(self):
        """Every server says so, and every replica is in step."""
        try:
            return all(self.info(server)["cluster_state"] == "ok" and self._is_linked(server) and
                       self._knows_replicas(server) for server in self.servers)
        except redis.exceptions.RedisError:
            return False

    def _knows_replicas(self, server):
        return all(len(servers) == self._copies for _, _, *servers in self._slots(server))

    def _is_linked(self, server):
        facts = self.client(server).info("replication")
        if facts["role"] == "slave":
            return facts["master_link_status"] == "up"
        # What is written until a replica is online is sent to it later.
        return all(facts[f"slave{number}"]["state"] == "online" for number in range(facts["connected_slaves"]))

    def await_replica(self, master):
        """Until a replica has all that the master has now."""
        offset = self.client(master).info("replication")["master_repl_offset"]
        wait_until(lambda: self.client(self.replica_of(master)).info("replication")["slave_repl_offset"] >= offset,
                   timeout=20, what="the replica has it")

    @property
    def url(self):
        login = f":{self.password}@" if self.password else ""
        return f"redis-cluster://{login}" + ",".join(f"127.0.0.1:{server.port}" for server in self.servers)

    def find_master_of(self, key, but=None):
        """The server that says itself that it has the key's slot; other than `but`. None: there is none just now."""
        slot = slot_of(key)
        for server in self.servers:
            try:
                for first, last, (_, port, *_), *_ in self._slots(server):
                    if first <= slot <= last and port == server.port and server is not but and \
                            self.client(server).role()[0] == "master":
                        return server
            except redis.exceptions.RedisError:
                pass
        return None

    def master_of(self, key, but=None):
        return wait_until(lambda: self.find_master_of(key, but), timeout=60, what="a master has the slot")

    def _slots(self, server):
        # redis-py would turn them into a dictionary.
        client = self.client(server)
        client.set_response_callback("CLUSTER SLOTS", lambda answer, **_: answer)
        return client.execute_command("CLUSTER SLOTS")

    def replica_of(self, master):
        for server in self.servers:
            try:
                role = self.client(server).role()
            except redis.exceptions.RedisError:
                continue
            if role[0] == "slave" and int(role[2]) == master.port:
                return server
        raise AssertionError("no replica")

    def keys(self, pattern="*"):
        found = set()
        for server in self.servers:
            found.update(self.client(server).keys(pattern))
        return sorted(found)

    def begin_move(self, slot, source, target):
        self.client(target).execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(source))
        self.client(source).execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(target))

    def move_keys(self, slot, source, target, *keys):
        """All keys of the slot, if none are named."""
        keys = keys or self.client(source).execute_command("CLUSTER", "GETKEYSINSLOT", slot, 1000)
        if keys:
            login = ("AUTH", self.password) if self.password else ()
            self.client(source).execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, *login, "KEYS", *keys)

    def end_move(self, slot, source, target):
        for server in (target, source):
            self.client(server).execute_command("CLUSTER", "SETSLOT", slot, "NODE", self.id_of(target))

    def end(self):
        for server in self.servers:
            server.thaw()
            server.kill()
