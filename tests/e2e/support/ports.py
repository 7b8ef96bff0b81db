# SPDX-License-Identifier: MIT
"""Ports for servers, in tests that run at once. Whoever finds a port free takes it only later: so each process has ports of
its own, and gives none of them out again soon."""
import itertools
import random
import socket

# Below those that connections get: a client that keeps trying to reach a server that is down would else be connected to
# itself one day, and the server could not come back. What is below these is for the unit tests (redis_server.cpp).
FIRST, LAST, SHARE = 22000, 32000, 200


def _bound(port):
    probe = socket.socket()
    try:
        probe.bind(("127.0.0.1", port))
        return probe
    except OSError:
        probe.close()
        return None


def _own_ports():
    """Those of a share, again and again. It is ours while we are bound to its first one."""
    shares = list(range(FIRST, LAST, SHARE))
    random.shuffle(shares)
    for first in shares:
        mark = _bound(first)
        if mark:
            yield from itertools.cycle(range(first + 1, first + SHARE))
    raise AssertionError("all shares of ports are taken")


_PORTS = _own_ports()


def free_port():
    """A port on which nobody listens."""
    for port in itertools.islice(_PORTS, SHARE):
        probe = _bound(port)
        if probe:
            probe.close()
            return port
    raise AssertionError("all ports of this process are in use")
