# SPDX-License-Identifier: MIT
"""Real Redis servers, false ones, and a proxy that loses replies."""
import os
import signal
import socket
import subprocess
import threading

import redis

from .ports import free_port
from .proc import wait_until


class RedisServer:
    """A redis-server of the test's own, on a free port and a socket, without persistence unless asked. `tls`: the
    options for another port with TLS (Authority.options)."""

    def __init__(self, directory, *options, env=None, tls=None):
        self.directory, self.options, self.env = str(directory), options, {**os.environ, **(env or {})}
        self.tls_port = free_port() if tls else None
        if tls:
            self.options += ("--tls-port", str(self.tls_port), *tls)
        self.port = free_port()
        self.socket = os.path.join(self.directory, "redis.sock")
        self.popen = None
        self.start()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    @property
    def tls_url(self):
        return f"rediss://127.0.0.1:{self.tls_port}"

    @property
    def unix_url(self):
        return f"unix://{self.socket}"

    def start(self):
        program = os.environ.get("KLOCK_TEST_SERVER", "redis-server")
        argv = ["setpriv", "--pdeathsig", "KILL", program, "--port", str(self.port), "--bind", "127.0.0.1",
                "--unixsocket", self.socket, "--dir", self.directory, "--save", "", "--maxclients", "2000",
                "--logfile", os.path.join(self.directory, "redis.log"), *self.options]
        self.popen = subprocess.Popen(argv, stdin=subprocess.DEVNULL, env=self.env)
        wait_until(self._answers, timeout=10, what="redis-server answers")

    def _answers(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as probe:
                probe.sendall(b"PING\r\n")
                return probe.recv(100)[:1] in (b"+", b"-") and not self._loading()
        except OSError:
            return False

    def _loading(self):
        try:
            return self.client().info("persistence")["loading"] == 1
        except redis.exceptions.AuthenticationError:
            return False
        except redis.exceptions.RedisError as error:
            return "LOADING" in str(error)

    def client(self, **options):
        return redis.Redis(port=self.port, decode_responses=True, **options)

    def freeze(self):
        self.popen.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.popen.send_signal(signal.SIGCONT)

    def kill(self):
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()

    def restart(self):
        self.kill()
        self.start()

    def monitor(self):
        return Monitor(self.port)

    def keys(self, *but):
        """Every key that is not in `but` (ends of names)."""
        return sorted(key for key in self.client().keys("*") if not key.endswith(but or ("\0",)))


class Monitor:
    """Collects what MONITOR shows. `calls()` are the commands that clients sent, without what scripts did."""

    def __init__(self, port):
        self.lines, self._socket = [], socket.create_connection(("127.0.0.1", port))
        self._socket.sendall(b"MONITOR\r\n")
        self._file = self._socket.makefile("rb")
        assert self._file.readline() == b"+OK\r\n"
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        try:
            for line in self._file:
                self.lines.append(line.decode(errors="replace").strip())
        except (OSError, ValueError):
            pass

    def calls(self):
        return [line for line in list(self.lines) if " lua]" not in line and "TEST-MARK" not in line]

    def settle(self, server):
        """Waits until everything sent before now has been seen."""
        mark = f"TEST-MARK-{len(self.lines)}"
        server.client().echo(mark)
        wait_until(lambda: any(mark in line for line in list(self.lines)), what="MONITOR caught up")
        return self.calls()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


class FalseServer:
    """Listens and answers each connection with `serve(socket)` in a thread; counts the connections."""

    def __init__(self, serve=None):
        self._serve = serve or (lambda connection: connection.recv(1))
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._listener.getsockname()[1]
        self.connections = 0
        self._open = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            threading.Thread(target=self._run, args=(connection,), daemon=True).start()

    def _run(self, connection):
        try:
            self._serve(connection)
        except (OSError, ValueError):
            pass
        connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        for connection in [self._listener, *self._open]:
            connection.close()


def commands(connection):
    """The commands that arrive on a connection, as lists of words."""
    stream = connection.makefile("rb")
    while True:
        head = stream.readline()
        if not head:
            return
        words = []
        for _ in range(int(head[1:])):
            size = int(stream.readline()[1:])
            words.append(stream.read(size + 2)[:-2])
        yield words


def answering(reply):
    """A false server's behaviour: the same `reply` to each command."""

    def serve(connection):
        for _ in commands(connection):
            connection.sendall(reply)

    return serve


class Proxy(FalseServer):
    """Passes bytes to a real server. After lose_reply() the next reply is swallowed and the connection cut:
    the server has done what was asked, and the client cannot know."""

    def __init__(self, server):
        self._server, self._lose, self.lost = server, 0, 0
        super().__init__(self._pass)

    def lose_reply(self, count=1):
        self._lose = count

    def _pass(self, client):
        upstream = socket.create_connection(("127.0.0.1", self._server.port))
        self._open.append(upstream)
        threading.Thread(target=self._pump, args=(client, upstream), daemon=True).start()
        while data := upstream.recv(65536):
            if self._lose > 0:
                self._lose -= 1
                self.lost += 1
                break
            client.sendall(data)
        for end in (client, upstream):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    @staticmethod
    def _pump(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass
