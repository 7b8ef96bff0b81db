# SPDX-License-Identifier: MIT
"""Fixtures of the end-to-end tests. KLOCK names the binary; KLOCK_TEST_SLOW stretches every limit."""
import os
import pathlib
import shutil
import signal
import stat
import struct
import subprocess
import uuid

import pytest
from support.proc import marked, wait_until
from support.runner import NOBODY, Klock, give_away
from support.sections import Sections
from support.servers import RedisServer

HERE = pathlib.Path(__file__).parent


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if call.when == "call":
        item.passed = outcome.get_result().passed


@pytest.fixture(scope="session")
def klock_path():
    path = os.path.abspath(os.environ.get("KLOCK", HERE / "../../build/dev/klock"))
    assert os.access(path, os.X_OK), f"{path} is not there; set KLOCK"
    return path


@pytest.fixture(scope="session")
def child(tmp_path_factory):
    """The test command, see support/child.c."""
    program = tmp_path_factory.mktemp("child") / "child"
    subprocess.run(["cc", "-O1", "-Wall", "-o", program, HERE / "support/child.c"], check=True)
    program.parent.chmod(0o755)
    return str(program)


@pytest.fixture
def make_redis(tmp_path):
    """make_redis(*options, env, tls) -> RedisServer."""
    made = []

    def make(*options, **more):
        directory = tmp_path / f"redis{len(made)}"
        directory.mkdir()
        made.append(RedisServer(directory, *options, **more))
        return made[-1]

    yield make
    for server in made:
        server.thaw()
        server.kill()


@pytest.fixture
def make_klock(klock_path, tmp_path, request, make_redis):  # make_redis: the servers must end after the klocks
    """make_klock(url) -> Klock. At the end of a passed test nothing of it may be alive."""
    mark = uuid.uuid4().hex
    made = []

    def make(url=None):
        directory = tmp_path / f"klock{len(made)}"
        directory.mkdir()
        made.append(Klock(klock_path, directory, mark, url))
        return made[-1]

    yield make
    for klock in made:
        klock.end_all()
    try:
        if getattr(request.node, "passed", False):
            wait_until(lambda: not marked(mark), what=f"nothing left over, now {marked(mark)}")
    finally:
        for process in marked(mark):
            os.kill(process.pid, signal.SIGKILL)


@pytest.fixture
def wrong_clock(tmp_path):
    """wrong_clock(seconds) -> the environment of a program whose wall clock is ahead by that."""
    library = tmp_path / "clock.so"
    subprocess.run(["cc", "-O1", "-Wall", "-shared", "-fPIC", "-o", library, HERE.parent / "fault/clock.c"], check=True)

    def ahead(seconds):
        step = tmp_path / f"step{seconds}"
        step.write_bytes(struct.pack("q", seconds))
        sanitizer = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        return {"LD_PRELOAD": str(library), "KLOCK_FAULT_CLOCK": str(step), "ASAN_OPTIONS": sanitizer}

    return ahead


@pytest.fixture
def redis(make_redis):
    return make_redis()


@pytest.fixture
def client(redis):
    return redis.client()


@pytest.fixture
def on_redis(make_klock, redis):
    """klock with a Redis server."""
    return make_klock(redis.url)


@pytest.fixture
def local_directory(tmp_path):
    directory = tmp_path / "locks"
    directory.mkdir()
    return directory


@pytest.fixture
def on_local(make_klock, local_directory):
    """klock with the local store in a directory of the test's own."""
    return make_klock(f"local:{local_directory}")


@pytest.fixture(params=["local", "redis"])
def store(request):
    """klock with each kind of store."""
    return request.getfixturevalue(f"on_{request.param}")


@pytest.fixture(params=["local", "redis", "unix"])
def every_store(request, make_klock):
    """As `store`, and Redis over a socket path too."""
    if request.param == "unix":
        return make_klock(request.getfixturevalue("redis").unix_url)
    return request.getfixturevalue(f"on_{request.param}")


@pytest.fixture
def as_nobody(klock_path, tmp_path):
    """as_nobody(klock, *words, env) starts klock as somebody who is not root (root may do everything)."""
    for folder in [tmp_path, *tmp_path.parents[:3]]:
        if folder.owner() == "root" and folder != pathlib.Path("/tmp") and folder != pathlib.Path("/"):
            folder.chmod(folder.stat().st_mode | stat.S_IXGRP | stat.S_IXOTH)
    binary = tmp_path / "klock-binary"
    shutil.copy(klock_path, binary)
    binary.chmod(0o755)
    nobody = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}

    def start(klock, *words, env=None):
        give_away(klock.directory)
        for name in ("home", "config", "runtime"):
            give_away(f"{klock.directory}/{name}")
        return klock.start_program(str(binary), *words, env=env, **nobody)

    return start


@pytest.fixture
def sections(child, tmp_path):
    return Sections(child, tmp_path / "sections")


@pytest.fixture
def signal_log(child, tmp_path):
    return SignalLog(child, tmp_path / "signals")


class SignalLog:
    """A command that logs its signals, and ends when told to."""

    def __init__(self, child_path, path):
        self.path, self.command = path, [child_path, "signals", str(path)]

    def lines(self):
        return self.path.read_text().splitlines() if self.path.exists() else []

    def wait_ready(self):
        return wait_until(lambda: [int(line.split()[1]) for line in self.lines() if line.startswith("ready")],
                          what="the command runs")[0]

    def count(self, number):
        return self.lines().count(f"signal {int(number)}")

    def wait_for(self, number):
        wait_until(lambda: self.count(number), what=f"signal {number} arrived")

    def end(self):
        pathlib.Path(f"{self.path}.stop").touch()
