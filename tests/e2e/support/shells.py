# SPDX-License-Identifier: MIT
"""Scripts in real shells that use klock."""
import os
import subprocess

from .proc import processes, memory_of, wait_until

POSIX = {"bash": ["bash"], "dash": ["dash"], "zsh": ["zsh", "-f"], "mksh": ["mksh"], "ksh93": ["ksh93"]}
FISH = ["fish", "--no-config"]

# Holds until its standard input ends.
HOLD = 'eval "$(klock acquire {words})" || exit; echo up $KLOCK_TOKEN; read -r line; echo over'
HOLD_IN_FISH = "klock acquire --shell fish {words} | source; or exit; echo up $KLOCK_TOKEN; read line; echo over"


def environment(klock):
    return {"PATH": os.path.dirname(klock.path) + ":" + klock.env["PATH"]}


def start(klock, text, shell="bash", **options):
    """A script whose standard input is a pipe, so that `read` waits until the test closes it."""
    argv = FISH if shell == "fish" else POSIX[shell]
    return klock.start_program(*argv, "-c", text, env={**environment(klock), **options.pop("env", {})},
                               stdin=options.pop("stdin", subprocess.PIPE), **options)


def run(klock, text, shell="bash", timeout=10, **options):
    script = start(klock, text, shell, **options)
    script.wait(timeout)
    script.popen.stdin.close()
    return script


def hold(klock, words, shell="bash", **options):
    """A script that holds a lock; `.token` is its token."""
    text = (HOLD_IN_FISH if shell == "fish" else HOLD).format(words=words)
    script = start(klock, text, shell, **options)
    wait_until(lambda: "up" in script.out or script.status is not None, what=f"{words} held")
    assert script.status is None, f"did not hold: {script.status} {script.err}"
    script.token = script.out.split()[1]
    return script


def finish(script):
    """Lets a script of hold() end."""
    script.popen.stdin.close()
    return script.wait()


def keepers(klock):
    """The keepers of what was started with this klock."""
    found = [p.pid for p in processes() if p.comm == "klock-keeper"]
    return [pid for pid in found if klock.mark.encode() in memory_of(pid, "environ")]


def keeper(klock):
    (pid,) = wait_until(lambda: keepers(klock), what="the keeper")
    return pid
