# SPDX-License-Identifier: MIT
"""The ways to one server, one for each host, through a proxy (proxy.py)."""
import pathlib
import subprocess
import sys

from plan import HOSTS
from support.ports import free_port

PROGRAM = pathlib.Path(__file__).with_name("proxy.py")


class Ways:
    def __init__(self, server_port):
        self.ports = [free_port() for _ in range(HOSTS)]  # by host
        self._proxy = subprocess.Popen([sys.executable, PROGRAM, str(server_port), *map(str, self.ports)],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._await_done()

    def _await_done(self):
        assert self._proxy.stdout.readline() == "done\n"

    def _order(self, *words):
        self._proxy.stdin.write(" ".join(map(str, words)) + "\n")
        self._proxy.stdin.flush()
        self._await_done()

    def disturb(self, host, *words):
        """In the proxy's words; returns what undoes it."""
        self._order(host, *words)
        return lambda: self._order(host, "pass")

    def end(self):
        self._proxy.kill()
        self._proxy.wait()
