# SPDX-License-Identifier: MIT
"""The wall clocks of the hosts, which step (clock.c): a fault that excuses nothing."""
import os
import struct

from plan import HOSTS

STEPS = (-3600, 3600, 86400, -86400)  # seconds


class Clocks:
    def __init__(self, directory, library):
        self._library = os.path.abspath(library)
        self._paths = [os.path.join(directory, f"clock{host}") for host in range(HOSTS)]
        for path in self._paths:
            with open(path, "wb") as file:
                file.write(struct.pack("q", 0))

    def environment(self, host):
        return {"LD_PRELOAD": self._library, "KLOCK_FAULT_CLOCK": self._paths[host]}

    def _set(self, host, seconds):
        with open(self._paths[host], "r+b", buffering=0) as file:
            file.write(struct.pack("q", seconds))

    def begin_step(self, host, seconds):
        self._set(host, seconds)
        return lambda: self._set(host, 0)


def can_step(klock):
    """Nothing can be preloaded into a program that is linked statically."""
    with open(klock, "rb") as file:
        return b"/ld-linux" in file.read(4096)
