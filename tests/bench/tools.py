# SPDX-License-Identifier: MIT
"""What is compared, and the ground that it runs on: a directory, a Redis server, an environment."""
import contextlib
import os
import pathlib
import signal
import subprocess

from peers import Peers
from support.servers import RedisServer

HERE = pathlib.Path(__file__).parent

# Those that are measured everywhere, with many samples; the peers, which are slow, get fewer.
MAIN = ["flock", "klock redis", "klock local"]


class Bench:
    """`tools`: {name: tool}; `X NAME COMMAND...`: tool(name) is what stands before the command."""

    def __init__(self, klock, quick, directory, with_peers=True):
        self.quick, self.directory, self.klock = quick, pathlib.Path(directory), klock
        self.env = {"PATH": os.environ["PATH"], "HOME": directory, "LANG": "C.UTF-8"}
        self.started = []
        self.helpers = str(self.directory / "helpers")
        subprocess.run(["cc", "-O2", "-o", self.helpers, HERE / "helpers.c"], check=True)
        (self.directory / "server").mkdir()
        self.server = RedisServer(self.directory / "server", "--maxclients", "10000")
        local = self.directory / "local"
        local.mkdir()
        self.urls = {"klock redis": self.server.url, "klock local": f"local:{local}"}
        self.peers = Peers(self, with_peers)
        self.tools = {
            "flock": lambda name: ["flock", str(self.directory / f"{name}.flock")],
            "klock redis": lambda name: self.run_klock("klock redis", name),
            "klock local": lambda name: self.run_klock("klock local", name),
            "floor redis": lambda name: [self.helpers, "redis", str(self.server.port), name],
            "floor local": lambda name: [self.helpers, "local", str(self.directory / f"{name}.floor")],
            **self.peers.tools(),
        }

    def run_klock(self, store, name, *options):
        return [self.klock, "run", "--url", self.urls[store], *options, name, "--"]

    def start(self, *argv, **options):
        self.started.append(subprocess.Popen(list(argv), env=self.env, cwd=self.directory, stdin=subprocess.DEVNULL, **options))
        return self.started[-1]

    def output(self, *argv):
        return subprocess.run(argv, env=self.env, cwd=self.directory, stdin=subprocess.DEVNULL, check=True,
                              capture_output=True, text=True).stdout

    def end(self):
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
        for process in self.started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            if process.poll() is None:
                process.kill()
        self.server.kill()
