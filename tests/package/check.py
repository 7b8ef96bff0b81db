# SPDX-License-Identifier: MIT
"""The packages are what they should be; and one is installed, used, upgraded, removed and purged in a clean Debian root."""

import gzip
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import debian_root
import packages

EXAMPLES = "/usr/share/doc/klock/examples"
CONFIG = "/etc/klock/klock.toml"
# dpkg's own notes, the statistics of another user, what systemd-analyze leaves, and what is not on a disk.
NOT_ITS_OWN = ("var/lib/dpkg/", "var/log/", "home/worker/", "run/systemd", "proc/", "dev/")


def install(root, package):
    shutil.copy(package, root.file("/tmp/klock.deb"))
    root.run("dpkg", "--force-confdef", "--force-confold", "--install", "/tmp/klock.deb")
    root.file("/tmp/klock.deb").unlink()


def all_paths(root):
    paths = {str(path.relative_to(root.path)) for path in root.path.rglob("*")}
    return {path for path in paths if not path.startswith(NOT_ITS_OWN)}


def directory_of(root, path):
    found = root.file(path).stat()
    return f"{found.st_mode:o} {found.st_uid} {found.st_gid}"


class Holder:
    """A command that runs under a lock."""

    def __init__(self, root, name):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = root.start("klock", "run", name, "--", "sh", "-c", "echo ready; read -r _", **pipes)
        assert self.process.stdout.readline() == "ready\n"

    def end(self):
        self.process.communicate("\n", timeout=60)
        assert self.process.returncode == 0


def check_pages(root):
    """Each is a page, or one line that says which one it is."""
    files = root.file("/usr/share/man").glob("man?/klock*")
    texts = {f"{path.parent.name}/{path.name}": gzip.decompress(path.read_bytes()).decode() for path in files}
    assert {"man1/klock.1.gz", "man1/klock-run.1.gz", "man7/klock-cookbook.7.gz", "man7/klock-stores.7.gz"} <= set(texts)
    assert texts["man1/klock-renew.1.gz"] == ".so man1/klock-acquire.1\n"
    for text in texts.values():
        page = texts[text.split()[1] + ".gz"] if text.startswith(".so ") else text
        assert page.startswith('.\\" SPDX'), text


def check_files(root):
    assert root.run("dpkg", "--verify", "klock") + root.run("dpkg", "--audit") == ""
    completion = ". /usr/share/bash-completion/completions/klock && complete -p klock"
    assert "-F" in root.run("bash", "-c", completion)
    for name in "zsh/vendor-completions/_klock", "fish/vendor_completions.d/klock.fish":
        assert root.file(f"/usr/share/{name}").is_file()


def remove_store(root):
    """Nobody has a lock: nothing is in it but what fences begin with."""
    directory = root.file("/run/lock/klock")
    for link in directory.glob(".epoch-*"):
        link.unlink()
    directory.rmdir()


def check_local_store(root):
    """The directory that the package makes is the one that klock makes."""
    made = directory_of(root, "/run/lock/klock")
    root.run("systemd-tmpfiles", "--clean")
    assert root.run("klock", "run", "job", "--", "echo", "hi") == "hi\n"
    remove_store(root)
    assert root.run("klock", "run", "job", "--", "echo", "hi") == "hi\n"
    assert directory_of(root, "/run/lock/klock") == made
    remove_store(root)
    root.run("systemd-tmpfiles", "--create", "--boot", "klock.conf")
    assert directory_of(root, "/run/lock/klock") == made
    holder = Holder(root, "job")
    assert "job" in root.run("klock", "status", "job")
    root.run("klock", "run", "-n", "-q", "job", "--", "echo", "hi", status=75)
    holder.end()
    # Somebody else has locks of his own.
    assert root.run("klock", "run", "job", "--", "id", "-un", user="worker") == "worker\n"
    assert root.file("/run/lock/klock-1000").stat().st_uid == 1000
    root.run("klock", "status", "job", status=1)


def check_examples(root):
    job = root.file("/usr/local/bin/nightly-report")
    job.write_text("#!/bin/sh\necho report\n")
    job.chmod(0o755)
    for unit in "klock-report.service", "klock-report.timer":
        shutil.copy(root.file(f"{EXAMPLES}/{unit}"), root.file("/etc/systemd/system"))
    assert root.run("systemd-analyze", "verify", "--man=no", "klock-report.timer", "klock-report.service") == ""
    cron = root.file(f"{EXAMPLES}/klock-report.cron").read_text().splitlines()[-1].split(maxsplit=6)
    assert cron[5] == "root" and root.run("sh", "-c", cron[6].replace("1m", "1ms")) == "report\n"
    service = root.file(f"{EXAMPLES}/klock-report.service").read_text()
    (start,) = [line for line in service.splitlines() if line.startswith("ExecStart=")]
    assert root.run(*start.removeprefix("ExecStart=").replace("1m", "1ms").split()) == "report\n"
    for left in job, *root.file("/etc/systemd/system").glob("klock-report.*"):
        left.unlink()


def check_upgrade(root, following):
    """A lock that is held stays held, and a configuration that was changed stays as it is."""
    with open(root.file(CONFIG), "a") as file:
        file.write("conflict-exit-code = 66\n")
    changed = root.file(CONFIG).read_text()
    holder = Holder(root, "job")
    install(root, following)
    assert root.run("dpkg-query", "--show", "--showformat=${Version} ${db:Status-Status}", "klock") == "999-1 installed"
    assert root.file(CONFIG).read_text() == changed
    assert root.file(CONFIG + ".dpkg-dist").exists()
    root.run("klock", "run", "-n", "-q", "job", "--", "echo", "hi", status=66)
    holder.end()
    assert root.run("klock", "run", "-n", "job", "--", "echo", "hi") == "hi\n"


def check_removal(root, before):
    root.run("dpkg", "--remove", "klock")
    assert not root.file("/usr/bin/klock").exists() and root.file(CONFIG).exists()
    root.run("dpkg", "--purge", "klock")
    assert all_paths(root) == before, all_paths(root) ^ before


def main():
    debian_root.need_root()
    os.chdir(packages.TOP)
    debian_root.BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="packages-", dir=debian_root.BUILD) as name:
        directory = pathlib.Path(name)
        built = packages.build(directory)
        packages.check_deb(built["DEB"])
        packages.check_rpm(built["RPM"], built["DEB"])
        packages.check_tarball(built["TGZ"], directory)
        with debian_root.DebianRoot() as root:
            root.run("useradd", "--create-home", "--uid", "1000", "worker")
            before = all_paths(root)
            install(root, built["DEB"])
            check_files(root)
            check_pages(root)
            check_local_store(root)
            check_examples(root)
            check_upgrade(root, packages.next_version(built["DEB"], directory))
            check_removal(root, before)
    return 0


if __name__ == "__main__":
    sys.exit(main())
