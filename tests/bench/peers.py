# SPDX-License-Identifier: MIT
"""klock's neighbours on a server, as somebody would use them who has no klock."""
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.request

from support.ports import free_port
from support.proc import wait_until

HERE = pathlib.Path(__file__).parent
NEEDS = {"etcdctl": ("etcd", "etcdctl"), "redis-cli": ("redis-cli",), "redis-py": ()}
# What does not renew its lease must have one that outlasts whatever it runs.
LONG = 600


class Etcd:
    """An etcd of one member, on free ports of loopback."""

    def __init__(self, bench):
        self.address = f"127.0.0.1:{free_port()}"
        client, peer = f"http://{self.address}", f"http://127.0.0.1:{free_port()}"
        with open(bench.directory / "etcd.log", "wb") as log:
            bench.start("setpriv", "--pdeathsig", "KILL", "etcd", "--data-dir", str(bench.directory / "etcd"),
                        "--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
                        "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}",
                        stdout=log, stderr=subprocess.STDOUT)
        ask = ["etcdctl", "--endpoints", self.address, "endpoint", "health"]
        wait_until(lambda: subprocess.run(ask, env=bench.env, capture_output=True).returncode == 0, timeout=20,
                   what="etcd answers")

    def requests(self):
        """How many messages it has had from its clients."""
        with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=10) as answer:
            text = answer.read().decode("ascii")
        return sum(float(count) for count in re.findall(r"^grpc_server_msg_received_total\{.*\} (\S+)$", text, re.M))


class Peers:
    """`names`: those whose programs are here. The others are told of, and left out."""

    def __init__(self, bench, wanted):
        self.port, self.names, self.etcd = str(bench.server.port), [], None
        for name, programs in NEEDS.items() if wanted else ():
            missing = [program for program in programs if not shutil.which(program)]
            if missing:
                print(f"{name} is left out: there is no {' and no '.join(missing)} here")
            else:
                self.names.append(name)
        if "etcdctl" in self.names:
            self.etcd = Etcd(bench)

    def tools(self, ttl=None):
        """{name: tool}, with leases of `ttl` seconds, or what is usual."""
        life = ttl or LONG
        lease = [f"--ttl={ttl}"] if ttl else []
        known = {
            "etcdctl": lambda name: ["etcdctl", "--endpoints", self.etcd.address, "lock", *lease, name, "--"],
            "redis-cli": lambda name: [str(HERE / "redis_cli_lock.sh"), self.port, str(life * 1000), name],
            "redis-py": lambda name: [sys.executable, str(HERE / "redis_py_lock.py"), self.port, str(life), name],
        }
        return {name: known[name] for name in self.names}
