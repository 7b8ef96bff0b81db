# SPDX-License-Identifier: MIT
"""A terminal with a screen, as its user sees it."""
import errno
import os
import re
import select

import pexpect
import pyte

from .proc import SLOW, children, close_terminal, wait_until


class ScreenTerminal:
    """Starts a program on a terminal of its own. `raw` is all that was written to it."""

    def __init__(self, klock, program, *words, size=(24, 80), env=None):
        self.tty = pexpect.spawn(program, list(words), cwd=klock.directory, timeout=10 * SLOW, dimensions=size,
                                 env={**klock.env, "TERM": "xterm", **(env or {})})
        self.tty.delaybeforesend = None
        self.raw, self.ended = b"", False
        self._renew(size)

    def _renew(self, size):
        self.screen = pyte.Screen(size[1], size[0])
        self._stream = pyte.ByteStream(self.screen)

    @property
    def pid(self):
        return self.tty.pid

    @property
    def klock_pid(self):
        """Of the klock that a shell runs here."""
        return wait_until(lambda: [p.pid for p in children(self.pid) if p.comm.startswith("klock")], what="klock")[0]

    def read(self):
        """Takes what has been written meanwhile; does not wait. Not by pexpect's reader: that takes a program that has
        ended for the end of what it wrote, some of which may still be on its way."""
        while not self.ended and select.select([self.tty.child_fd], [], [], 0)[0]:
            try:
                data = os.read(self.tty.child_fd, 65536)
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                data = b""
            self.ended = not data
            self.raw += data
            self._stream.feed(data)

    def lines(self):
        self.read()
        return [line.rstrip() for line in self.screen.display]

    def text(self):
        return "\n".join(self.lines())

    def wait_for(self, *patterns, timeout=10):
        """Until the screen shows all of the patterns at once; returns its text."""
        try:
            return wait_until(lambda: self._shown(patterns), timeout=timeout)
        except AssertionError as fault:
            raise AssertionError(f"no {patterns} in:\n{self.text()}\n{fault}") from None

    def _shown(self, patterns):
        text = self.text()
        return text if all(re.search(pattern, text, re.M) for pattern in patterns) else ""

    def wait_gone(self, pattern):
        wait_until(lambda: not re.search(pattern, self.text(), re.M), timeout=10, what=f"no {pattern} any more")

    def send(self, keys):
        self.tty.send(keys)

    def resize(self, height, width):
        self.read()
        self._renew((height, width))
        self.tty.setwinsize(height, width)

    def wait_end(self, timeout=10):
        """Its exit status, as a shell sees it."""
        wait_until(lambda: self.read() or self.ended, timeout=timeout, what="the program has ended")
        self.tty.wait()
        self.tty.close()
        return self.tty.exitstatus if self.tty.signalstatus is None else 128 + self.tty.signalstatus

    def hang_up(self):
        self.tty.ptyproc.fileobj.close()

    def open_slave(self):
        return os.open(f"/proc/{self.pid}/fd/0", os.O_RDWR | os.O_NOCTTY)

    def close(self):
        close_terminal(self.tty)
