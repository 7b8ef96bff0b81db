# SPDX-License-Identifier: MIT
"""The recipes of klock-cookbook(7), taken from the page and run as they stand there."""
import os
import pathlib
import re

import pytest
from support import shells
from support.proc import wait_until

PAGE = pathlib.Path(__file__).parents[2] / "man/klock-cookbook.7"


def recipes():
    """{heading: [code, ...]}"""
    found = {}
    for heading, text in re.findall(r"^\.Sh ([^\n]*)$(.*?)(?=^\.Sh |\Z)", PAGE.read_text(), re.M | re.S):
        blocks = re.findall(r"^\.Bd -literal -offset indent\n(.*?)^\.Ed$", text, re.M | re.S)
        if blocks:
            found[heading] = [block.replace("\\e", "\\") for block in blocks]
    return found


class Kitchen:
    """A directory of programs: klock, the recipes, and what they call."""

    def __init__(self, klock, directory):
        self.klock, self.directory = klock, directory
        directory.mkdir()
        (directory / "klock").symlink_to(klock.path)
        self.log = directory / "log"

    def program(self, name, text):
        path = self.directory / name
        path.write_text(text if text.startswith("#!") else "#!/bin/sh\n" + text)
        path.chmod(0o755)

    def logs(self, name, then=""):
        """A program that writes its name and its words to the log."""
        self.program(name, f'echo {name} "$@" >>{self.log}\n{then}')

    def start(self, *argv, **env):
        path = f"{self.directory}:{self.klock.env['PATH']}"
        return self.klock.start_program(*argv, env={"PATH": path, **env})

    def run(self, *argv, **env):
        started = self.start(*argv, **env)
        started.wait()
        return started

    def logged(self):
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def kitchen(store, tmp_path):
    return Kitchen(store, tmp_path / "kitchen")


@pytest.fixture
def redis_kitchen(on_redis, tmp_path):
    return Kitchen(on_redis, tmp_path / "kitchen")


def test_every_recipe_is_tested():
    source = pathlib.Path(__file__).read_text()
    untested = [heading for heading in recipes() if f'recipes()["{heading}"]' not in source]
    assert not untested and len(recipes()) == 8


def test_cache(kitchen, tmp_path):
    (code,) = recipes()["REBUILD A CACHE ENTRY ONCE"]
    kitchen.program("page", code)
    kitchen.logs("build-page", "sleep 0.2; echo page of $1")
    cache = tmp_path / "cache"
    cache.mkdir()
    readers = [kitchen.start("page", "home", CACHE_DIRECTORY=str(cache)) for _ in range(8)]
    for reader in readers:
        assert reader.wait() == 0 and reader.out == "page of home\n" and reader.err == ""
    assert kitchen.logged() == ["build-page home"]
    os.utime(cache / "home", (1, 1))
    assert kitchen.run("page", "home", CACHE_DIRECTORY=str(cache)).status == 0
    assert kitchen.logged() == ["build-page home"] * 2
    kitchen.program("build-page", "exit 5")
    os.utime(cache / "home", (1, 1))
    assert kitchen.run("page", "home", CACHE_DIRECTORY=str(cache)).status == 5


def test_at_most_once(kitchen):
    (code,) = recipes()["PAY OR SEND AT MOST ONCE"]
    kitchen.program("pay", code)
    kitchen.program("charge", "exit 3")
    assert kitchen.run("pay", "4711").status == 3
    kitchen.logs("charge")
    for payer in [kitchen.start("pay", "4711") for _ in range(8)]:
        assert payer.wait() == 0 and payer.out + payer.err == ""
    (charged,) = kitchen.logged()
    assert re.fullmatch(r"charge --order 4711 --fence \d+", charged)
    assert kitchen.run("pay", "4712").status == 0 and len(kitchen.logged()) == 2
    assert kitchen.run("klock", "once", "show", "order:4711", "paid").status == 0
    assert kitchen.run("klock", "once", "clear", "order:4711", "paid").status == 0
    assert kitchen.run("pay", "4711").status == 0 and len(kitchen.logged()) == 3


def test_document(redis_kitchen, redis, client):
    (code,) = recipes()["READ, CHANGE AND WRITE A DOCUMENT"]
    redis_kitchen.program("add-item", code)
    redis_kitchen.program("redis-cli", f'exec /usr/bin/redis-cli -p {redis.port} "$@"')
    for adding in [redis_kitchen.start("add-item", "s1", str(number)) for number in range(10)]:
        assert adding.wait() == 0, adding.err
    assert sorted(client.hget("shop:s1", "items").split()) == sorted(map(str, range(10)))
    client.hset("shop:s1", "fence", 9 * 10**15)
    assert redis_kitchen.run("add-item", "s1", "late").status == 1
    assert "late" not in client.hget("shop:s1", "items")


def crontab_command(line):
    return re.fullmatch(r"15 3 \* \* \* (.*)\n", line)[1].replace("\\%", "%")


def test_cron(kitchen):
    first, second = recipes()["ONE OF SEVERAL HOSTS RUNS THE CRON JOB"]
    kitchen.logs("nightly-report")
    for host in [kitchen.start("sh", "-c", crontab_command(first)) for _ in range(4)]:
        assert host.wait() == 0 and host.out == "" and (host.err == "" or "busy" in host.err)
    assert kitchen.run("sh", "-c", crontab_command(first)).status == 0
    assert kitchen.logged() == ["nightly-report"]
    again = crontab_command(second).replace(" report ", " other ")
    for host in [kitchen.start("sh", "-c", again) for _ in range(4)]:
        assert host.wait() == 0 and host.out + host.err == ""
    assert kitchen.logged() == ["nightly-report"] * 2


def test_import(kitchen):
    (code,) = recipes()["A LONG IMPORT"]
    kitchen.program("import", code)
    kitchen.logs("load-orders", "exit 4")
    assert kitchen.run("import", "today").status == 4 and kitchen.logged() == ["load-orders today"]
    kitchen.program("import", code.replace("10m", "100ms").replace("6h", "300ms"))
    kitchen.program("load-orders", "exec sleep 1000")
    stopped = kitchen.run("import", "today")
    assert stopped.status == 124 and "check today" in stopped.err
    kitchen.klock.hold("import")
    busy = kitchen.run("import", "today")
    assert busy.status == 75 and "left for later" in busy.err


def test_mirror(kitchen, tmp_path):
    mirror, read = recipes()["MIRROR WITH RSYNC"]
    kitchen.logs("rsync", 'mkdir -p "$4" && echo mirrored >"$4/file"')
    env = {"UPSTREAM": "host::data/", "MIRROR": str(tmp_path / "mirror"), "ARCHIVE": str(tmp_path / "tar")}
    assert kitchen.run("sh", "-c", mirror, **env).status == 0
    assert kitchen.logged() == [f"rsync -a --delete host::data/ {env['MIRROR']}"]
    readers = [kitchen.start("sh", "-c", read, **{**env, "ARCHIVE": f"{tmp_path}/tar{number}"}) for number in range(3)]
    for reader in readers:
        assert reader.wait() == 0, reader.err
    kitchen.klock.hold("mirror", "-s")
    skipped = kitchen.run("sh", "-c", mirror, **env)
    assert skipped.status == 0 and len(kitchen.logged()) == 1
    assert kitchen.run("sh", "-c", read, **env).status == 0


def test_timer(kitchen):
    (unit,) = recipes()["SYSTEMD TIMER"]
    words = re.search("^ExecStart=(.*)$", unit, re.M)[1]
    assert words.startswith("/usr/bin/klock ") and "/usr/local/bin/nightly-report" in words
    kitchen.logs("nightly-report")
    command = words.replace("/usr/bin/", "").replace("/usr/local/bin/", "")
    assert kitchen.run("sh", "-c", command).status == 0 and kitchen.logged() == ["nightly-report"]
    kitchen.klock.hold("report")
    assert kitchen.run("sh", "-c", command).status == int(re.search("^SuccessExitStatus=(.*)$", unit, re.M)[1])
    assert kitchen.logged() == ["nightly-report"]


def test_script(kitchen):
    (code,) = recipes()["A SCRIPT OF SEVERAL STEPS"]
    kitchen.program("backup", code)
    for name in ("make-snapshot", "publish-snapshot", "clean-up"):
        kitchen.logs(name)
    done = kitchen.run("backup")
    assert done.status == 0, done.err
    assert [line.split()[0] for line in kitchen.logged()] == ["make-snapshot", "publish-snapshot", "clean-up"]
    kitchen.log.unlink()
    kitchen.logs("make-snapshot", "klock force-release --yes --now backup 2>/dev/null")
    lost = kitchen.start("backup")
    assert lost.wait() in (1, 79)
    assert [line.split()[0] for line in kitchen.logged()] == ["make-snapshot"]
    wait_until(lambda: not shells.keepers(kitchen.klock), what="the keeper ends")


def test_script_that_is_told(kitchen):
    (code,) = recipes()["A SCRIPT OF SEVERAL STEPS"]
    kitchen.program("backup", code)
    kitchen.logs("make-snapshot", 'kill -s TERM "$PPID"')
    done = kitchen.run("backup")
    assert done.status == 79 and "lost the lock" in done.err
    assert kitchen.logged() == ["make-snapshot"]
