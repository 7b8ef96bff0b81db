# SPDX-License-Identifier: MIT
"""A clean Debian root to install and run things in. Needs root, and nothing of it outlives the process that made it.

It is made once, from the sources that this machine's apt has, and then unpacked for each use. What runs in it has
namespaces of its own for processes and mounts: when run() ends the kernel has ended and unmounted all of it.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

SUITE = "bookworm"
# For tmpfiles.d and to verify units; and where somebody may become another user.
PACKAGES = "systemd,util-linux,passwd"
BUILD = pathlib.Path(__file__).parents[2] / "build"
SOURCES = "$(ORIGIN) $(RELEASE) $(COMPONENT) $(CREATED_BY) $(REPO_URI)"
# How this machine gets to its mirror, and whether that may be an old one.
APT_OPTIONS = re.compile(r"Acquire::(https?::Proxy\S*|Check-\S+) .*")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Within: processes, devices; then the command, as a child: the first process gets no signals, and logs elsewhere. The root is a
# mount, as a root is, so that another one can be entered from it.
ENTER = """
mount --bind "$0" "$0" || exit 71
mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && mount --make-rslave "$0/dev" || exit 71
chroot "$0" "$@" || exit $?
"""


def need_root():
    if os.geteuid() != 0:
        sys.exit("a Debian root can be made and entered by root alone: run this as root")


def lines_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout.splitlines()


def apt_sources():
    """In the form of sources.list."""

    def look():
        for line in lines_of("apt-get", "indextargets", "--format", SOURCES):
            words = line.split()
            if words[:1] == ["Debian"] and words[1].startswith(SUITE) and words[2:4] == ["main", "Packages"]:
                yield f"deb {words[4]} {words[1]} main"

    found = sorted(set(look()))
    if not found:  # whose they are is known once their lists are there
        subprocess.run(["apt-get", "-q", "update"], check=True, stdout=subprocess.DEVNULL, timeout=300)
        found = sorted(set(look()))
    if not found:
        sys.exit(f"apt knows no source of Debian {SUITE}")
    return "\n".join(found) + "\n"


def tarball():
    """The root as it is at first."""
    kept = BUILD / f"debian-root-{SUITE}.tar"
    if kept.exists():
        return kept
    with tempfile.TemporaryDirectory(dir=BUILD) as directory:
        made, sources = pathlib.Path(directory) / "root.tar", pathlib.Path(directory) / "sources.list"
        sources.write_text(apt_sources())
        options = [f"--aptopt={line}" for line in lines_of("apt-config", "dump") if APT_OPTIONS.match(line)]
        command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", *options, SUITE, made, sources]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=900)
        made.rename(kept)
    return kept


class DebianRoot:
    def __enter__(self):
        need_root()
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # not without cleaning up
        BUILD.mkdir(exist_ok=True)
        start = tarball()
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="root-", dir=BUILD))
        self.path.chmod(0o755)
        self.processes = []
        subprocess.run(["tar", "-xf", start, "-C", self.path, "--exclude=./dev/*"], check=True, timeout=300)
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()
        shutil.rmtree(self.path)

    def file(self, name):
        return self.path / name.lstrip("/")

    def start(self, *command, user=None, **options):
        """A process in it; ending it ends all that it started."""
        if user:
            command = ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *command)
        namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        environment = {"PATH": PATH, "LC_ALL": "C.UTF-8", "HOME": f"/home/{user}" if user else "/root", "DEBIAN_FRONTEND": "noninteractive"}
        command = [*namespaces, "sh", "-c", ENTER, self.path, *command]
        process = subprocess.Popen(command, env=environment, **{"stdin": subprocess.DEVNULL, **options})
        self.processes.append(process)
        return process

    def run(self, *command, user=None, status=0, timeout=120):
        """What the command printed, having ended with this status."""
        pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        process = self.start(*command, user=user, **pipe)
        said, _ = process.communicate(timeout=timeout)
        if process.returncode != status:
            raise AssertionError(f"{' '.join(command)}: status {process.returncode}, not {status}\n{said}")
        return said
