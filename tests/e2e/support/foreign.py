# SPDX-License-Identifier: MIT
"""Locks of other programs on Redis, taken as those programs take them."""
import json
import os
import shutil
import subprocess
import threading

import pytest

UUID = "2b1e5d9a-7c54-4f0e-9a52-0d4b8a3e6f11"
TOKEN_OF_32 = "nZ3VHcPgQm0Jx2c8bKq5l7T1yR4wEoUsDfGhAaIiXvA="

# {kind: (key, what SET or its like writes there, the client that klock names)}. Redisson's and Symfony's take
# several steps in their scripts; what these leave is the same.
KINDS = {
    "redis-py": ("job", lambda client: client.lock("job", timeout=60).acquire(blocking=False), "redis-py"),
    "python-redis-lock": ("lock:job", lambda client: client.set("lock:job", "mZ0Lk3pWq8R1sT6uVx2yBAcd", nx=True, ex=60),
                          "python-redis-lock"),
    "python-redis-lock of old": ("lock:job", lambda client: client.set("lock:job", b"\x00\xff\x1b[31m\x9b1m\r\n1234", nx=True),
                                 "python-redis-lock"),
    "redlock-rb": ("job", lambda client: client.set("job", UUID, nx=True, px=60000), "redlock-rb, RedLock.net or redis-semaphore"),
    "redsync": ("job", lambda client: client.set("job", "mZ0Lk3pWq8R1sT6uVx2yBA==", nx=True, px=60000), "redsync"),
    "bsm/redislock": ("job", lambda client: client.set("job", "mZ0Lk3pWq8R1sT6uVx2y-A", nx=True, px=60000), "bsm/redislock"),
    "ShedLock": ("job", lambda client: client.set("job", "ADDED:2026-11-29T03:00:00.000Z@web1", nx=True, px=60000), "ShedLock"),
    "Redisson": ("job", lambda client: (client.hset("job", f"{UUID}:43", 1), client.pexpire("job", 30000)), "Redisson"),
    "Redisson, reading": ("job", lambda client: client.hset("job", mapping={"mode": "read", f"{UUID}:43": 1}),
                          "Redisson (read lock)"),
    "Redisson, writing": ("job", lambda client: client.hset("job", mapping={"mode": "write", f"{UUID}:43:write": 1}),
                          "Redisson (write lock)"),
    "Symfony": ("job", lambda client: client.zadd("job", {TOKEN_OF_32: 2e12, "__write__": 2e12}), "Symfony"),
    "Symfony before 5.2": ("job", lambda client: client.set("job", TOKEN_OF_32, nx=True, px=300000), "Symfony"),
    "redis-semaphore": ("job", lambda client: client.zadd("job", {UUID: 1.8e12}), "redis-semaphore"),
    "somebody": ("job", lambda client: client.set("job", "1"), None),
    "somebody's list": ("job", lambda client: client.rpush("job", "1"), None),
}

NODE_LOCK = r"""
const Redis = require('ioredis'), Redlock = require('redlock');
const clients = process.argv[2].split(',').map(port => new Redis(+port, '127.0.0.1'));
const redlock = new Redlock(clients, {retryCount: +process.argv[3], retryDelay: 50});
const disconnect = () => clients.forEach(client => client.disconnect());
redlock.lock('job', 20000).then(async lock => {
  console.log('locked');
  process.stdin.on('end', async () => {
    await lock.unlock().then(() => console.log('unlocked')).catch(error => console.log(error.name));
    disconnect();
  });
  process.stdin.resume();
}).catch(error => { console.log(error.name); disconnect(); });
"""


def start_node_redlock(klock, servers, directory, retries=0):
    """npm's redlock 4.2.0, which locks `job` on one server, or on several, until its standard input ends."""
    modules = os.environ.get("KLOCK_NODE_MODULES", "")
    if not shutil.which("node") or not os.path.isdir(os.path.join(modules, "redlock")):
        pytest.skip("KLOCK_NODE_MODULES names no folder with redlock (tests/run installs it)")
    script = os.path.join(directory, "lock.js")
    with open(script, "w", encoding="utf-8") as file:
        file.write(NODE_LOCK)
    ports = ",".join(str(server.port) for server in (servers if isinstance(servers, list) else [servers]))
    return klock.start_program("node", script, ports, str(retries), env={"NODE_PATH": modules}, stdin=subprocess.PIPE)


class PythonRedisLock:
    """One who waits as python-redis-lock does: SET NX, else BLPOP on the list of signals, and again."""

    def __init__(self, client):
        self.woken, self.held = threading.Event(), threading.Event()
        self._client = client
        threading.Thread(target=self._acquire, daemon=True).start()

    def _acquire(self):
        while not self._client.set("lock:job", "mine", nx=True):
            self._client.blpop("lock-signal:job", 30)
            self.woken.set()
        self.held.set()


def state(klock, key):
    return json.loads(klock.run("status", "--json", "--key", key, "n").out)[0]
