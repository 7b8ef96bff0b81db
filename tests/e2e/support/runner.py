# SPDX-License-Identifier: MIT
"""Runs klock: in a private environment, with its output in files, and everything it starts marked."""
import json
import os
import signal
import subprocess
import time

from .proc import SLOW, command_of, descendants, marked, wait_until


NOBODY = 65534


def lock_files(directory):
    """What a local store has in its directory, without the log, the statistics and what its fences begin with."""
    return sorted(name for name in os.listdir(directory) if not name.startswith(("events.log", "statistics", ".epoch-")))


def give_away(path):
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


class Running:
    """A started program. Its output goes to files, so that it can be read at any time and nobody hangs on a pipe."""

    def __init__(self, argv, env, directory, number, stdin=None, **options):
        self.argv = argv
        self._out, self._err = (os.path.join(directory, f"{number}.{kind}") for kind in ("out", "err"))
        out = options.pop("stdout", None) or open(self._out, "wb")
        err = options.pop("stderr", None) or open(self._err, "wb")
        self.started = time.monotonic()
        self.popen = subprocess.Popen(argv, env=env, stdin=stdin or subprocess.DEVNULL, stdout=out, stderr=err,
                                      cwd=directory, **options)
        self.ended = None
        for stream in (out, err):
            if hasattr(stream, "close"):
                stream.close()

    @property
    def pid(self):
        return self.popen.pid

    @property
    def status(self):
        """The exit status as a shell sees it (128 + S for a death of signal S), None while it runs."""
        code = self.popen.poll()
        if code is not None and self.ended is None:
            self.ended = time.monotonic()
        return code if code is None or code >= 0 else 128 - code

    @property
    def died_of(self):
        return -self.popen.poll() if (self.popen.poll() or 0) < 0 else None

    @property
    def out(self):
        return self._read(self._out)

    @property
    def err(self):
        return self._read(self._err)

    @property
    def seconds(self):
        return self.ended - self.started

    @property
    def command(self):
        return wait_until(lambda: command_of(self.pid), what="the command's process")

    def send(self, number):
        self.popen.send_signal(number)

    def wait(self, timeout=10):
        try:
            self.popen.wait(timeout * SLOW)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.argv} still runs after {timeout * SLOW:g} s, with {descendants(self.pid)}; "
                                 f"stderr: {self.err!r}") from None
        return self.status

    @staticmethod
    def _read(path):
        with open(path, "rb") as file:
            return file.read().decode(errors="surrogateescape")


class Klock:
    """klock with one store (KLOCK_URL, or none for url=None), and what a test started with it."""

    def __init__(self, path, directory, mark, url=None):
        self.path, self.directory, self.mark, self.url = path, str(directory), mark, url
        self.env = self._environment()
        self.started = []

    def _environment(self):
        passed = {name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")}
        for name in ("home", "runtime", "config"):
            os.makedirs(os.path.join(self.directory, name), mode=0o700, exist_ok=True)
        env = {**passed, "PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LANG": "C.UTF-8", "TZ": "UTC",
               "HOME": f"{self.directory}/home", "XDG_RUNTIME_DIR": f"{self.directory}/runtime",
               "XDG_CONFIG_HOME": f"{self.directory}/config", "KLOCK_TEST_MARK": self.mark}
        return {**env, "KLOCK_URL": self.url} if self.url else env

    def start_program(self, *argv, env=None, stdin=None, **options):
        started = Running(list(argv), {**self.env, **(env or {})}, self.directory, len(self.started), stdin, **options)
        self.started.append(started)
        return started

    def start(self, *words, **options):
        return self.start_program(self.path, *words, **options)

    patience = 10  # s, for what should be quick

    def run(self, *words, timeout=None, **options):
        """Runs klock to its end."""
        started = self.start(*words, **options)
        started.wait(timeout or self.patience)
        return started

    def hold(self, name, *options, command="exec sleep 1000", **more):
        """klock run NAME with a long command; returns once the command runs."""
        holder = self.start("run", *options, name, "--", "sh", "-c", "echo up; " + command, **more)
        wait_until(lambda: "up" in holder.out or holder.status is not None, timeout=self.patience, what=f"{name} held")
        assert holder.status is None, f"did not hold {name}: {holder.status} {holder.err}"
        return holder

    def state(self, name, *options):
        """What `klock status --json` says about one lock."""
        done = self.run("status", "--json", *options, name)
        assert done.status in (0, 1), done.err
        return json.loads(done.out)[0]

    def waiters(self, name):
        return len(self.state(name)["waiters"])

    def queue(self, name, count, *command, options=()):
        """Starts `count` waiters one after another, each queued before the next starts."""
        found = []
        for number in range(count):
            words = [word.format(number) for word in command] or ["true"]
            found.append(self.start("run", *options, name, "--", *words))
            wait_until(lambda n=number: self.waiters(name) > n, timeout=10, what=f"waiter {number} queued")
        return found

    def queue_for(self, key):
        """One who waits for the lock of another program."""
        waiter = self.start("run", "--key", key, "n", "--", "true")
        wait_until(lambda: self.state("n", "--key", key)["waiters"], timeout=10, what="queued")
        return waiter

    def is_free(self, name, *options):
        return self.state(name, *options)["state"] == "free"

    def let(self, name):
        """Makes the file that a script in our directory waits for."""
        with open(os.path.join(self.directory, name), "w", encoding="ascii"):
            pass

    def end_all(self):
        """Ends what still runs, as an administrator would: TERM to each klock."""
        for started in self.started:
            if started.status is None:
                started.send(signal.SIGCONT)
                started.send(signal.SIGTERM)
        for started in self.started:
            try:
                started.popen.wait(8 * SLOW)
            except subprocess.TimeoutExpired:
                pass

    def leftovers(self):
        return marked(self.mark)
