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
    "redis-semaphore's mutex": ("mutex:job", lambda client: client.set("mutex:job", UUID, nx=True, px=60000), "redis-semaphore"),
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

NODE_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lock.js")


def start_node(klock, servers, library, key="job", ttl=20000, attempts=1):
    """A program of support/lock.js, which locks with an npm library until its standard input ends: on one server, or (a
    list) on several."""
    modules = os.environ.get("KLOCK_NODE_MODULES", "")
    if not shutil.which("node") or not os.path.isdir(os.path.join(modules, library.split(",")[0])):
        pytest.skip(f"KLOCK_NODE_MODULES names no folder with {library} (tests/run installs it)")
    ports = ",".join(str(server.port) for server in (servers if isinstance(servers, list) else [servers]))
    return klock.start_program("node", NODE_PROGRAM, library, ports, key, str(ttl), str(attempts),
                               env={"NODE_PATH": modules}, stdin=subprocess.PIPE)


def unlock(node):
    """Tells a program of support/lock.js to unlock and waits for its end."""
    node.popen.stdin.close()
    assert node.wait() == 0, node.err


class PythonRedisLockSteps:
    """python-redis-lock's, in its order."""

    key = "lock:job"

    def __init__(self, client):
        self._client = client

    def acquire(self):
        return bool(self._client.set(self.key, "mZ0Lk3pWq8R1sT6uVx2yBAcd", nx=True, ex=60))

    def release(self):
        self._client.delete(self.key)
        self._client.lpush("lock-signal:job", 1)
        self._client.pexpire("lock-signal:job", 1000)


class RedissonSteps:
    """Those of Redisson's plain lock, which may be taken again by the thread that has it, in their order."""

    key, owner = "job", f"{UUID}:43"

    def __init__(self, client):
        self._client = client

    def acquire(self):
        if self._client.exists(self.key) and not self._client.hexists(self.key, self.owner):
            return False
        self._client.hincrby(self.key, self.owner, 1)
        self._client.pexpire(self.key, 30000)
        return True

    def release(self):
        if self._client.hincrby(self.key, self.owner, -1) == 0:
            self._client.delete(self.key)
            self._client.publish("redisson_lock__channel:{job}", 0)


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
