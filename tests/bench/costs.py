# SPDX-License-Identifier: MIT
"""What a run costs when nobody is in its way."""
import contextlib
import shutil
import statistics

from queues import Gate
from support.clusters import Cluster
from support.independent import Independent
from support.proc import wait_until
from support.sentinels import NAME, Sentinel


class Walls:
    """Each round runs every command a few times, beginning with another; `slow` ones once, and only in every fifth round."""

    def __init__(self, bench, commands, rounds, runs, slow=()):
        self.names = list(commands)
        self._medians = {name: {} for name in commands}
        for number in range(rounds):
            start = number % len(self.names)
            for name in self.names[start:] + self.names[:start]:
                if name in slow and number % 5:
                    continue
                times = bench.output(bench.helpers, "time", "1" if name in slow else str(runs), *commands[name]).split()
                self._medians[name][number] = statistics.median(int(ns) for ns in times) / 1e6

    def median(self, name):
        return statistics.median(self._medians[name].values())

    def best(self, name):
        return min(self._medians[name].values())

    def ratio(self, name, base):
        """The median of the ratios within a round."""
        mine, its = self._medians[name], self._medians[base]
        return statistics.median(mine[number] / its[number] for number in mine.keys() & its.keys())


@contextlib.contextmanager
def topologies(bench):
    """{name: URL} of klock's stores that are more than one server. A Sentinel asks its server all the time: none of them stays."""
    place = bench.directory / "sentinel"
    place.mkdir()
    sentinel = Sentinel(place, bench.server.port, 1)
    (bench.directory / "cluster").mkdir()
    cluster = Cluster(bench.directory / "cluster", replicas=False)
    independent = Independent(bench.directory)
    try:
        yield {"klock sentinel": f"redis-sentinel://127.0.0.1:{sentinel.port}/{NAME}", "klock cluster": cluster.url,
               **{f"klock redlock {count}": independent.url_of(count) for count in (3, 5)}}
    finally:
        for server in (sentinel, *cluster.servers, *independent.servers):
            server.kill()


def wrap(bench, report):
    """Cost of `X NAME true`."""
    rounds, runs = (11, 5) if bench.quick else (60, 10)
    true = shutil.which("true")
    tools = {name: tool("wrap") for name, tool in bench.tools.items()}
    with topologies(bench) as urls:
        tools.update({name: [bench.klock, "run", "--url", url, "wrap", "--"] for name, url in urls.items()})
        walls = Walls(bench, {"true": [true], **{name: [*words, true] for name, words in tools.items()}}, rounds, runs,
                      slow=bench.peers.names)
    floor = lambda name: "floor local" if "local" in name or name == "flock" else "floor redis"
    rows = [[name, walls.median(name), walls.best(name), walls.ratio(name, "flock"), walls.ratio(name, floor(name)),
             walls.ratio(name, "klock redis")] for name in walls.names]
    report.add("wrap", f"`X NAME true`, {rounds} interleaved rounds of {runs}",
               ["tool", "median ms", "best ms", "/flock", "/floor", "/klock redis"], rows)


def modes(bench, report):
    """Cost of `X NAME true` for readers and slots, beside another one who holds it all the time; and of once-only work."""
    rounds, runs = (8, 5) if bench.quick else (30, 10)
    true, flock = shutil.which("true"), ["flock", "-s", str(bench.directory / "modes.flock")]
    gate = Gate(bench, "modes")
    beside = [bench.start(*flock, *gate.before("flock"))]
    commands = {"flock -s": [*flock, true]}
    for store in bench.urls:
        for options in (["-s"], ["--slots", "3"]):
            name = f"{store} {options[0]}"
            words = bench.run_klock(store, name.replace(" ", "_"), *options)
            beside.append(bench.start(*words, *gate.before(name.replace(" ", "_"))))
            commands[name] = [*words, true]
        commands[f"{store} --once, done"] = [*bench.run_klock(store, "once", "--once", "k"), true]
        bench.output(*commands[f"{store} --once, done"])
    wait_until(lambda: gate.standing() == len(beside), timeout=20, what="the others hold it")
    walls = Walls(bench, commands, rounds, runs)
    gate.open()
    assert not any(process.wait(30) for process in beside)
    rows = [[name, walls.median(name), walls.best(name), walls.ratio(name, "flock -s")] for name in walls.names]
    report.add("modes", "`X NAME true` beside another holder, and work that was done before",
               ["tool", "median ms", "best ms", "/flock -s"], rows)


def shell(bench, report):
    """A script that takes a lock, and gives it up again."""
    rounds, runs = (8, 5) if bench.quick else (30, 10)
    flock = str(bench.directory / "shell.flock")
    script = '"$0" release --url "$1" "$2"'
    commands = {"flock FD": ["sh", "-c", 'exec 9>"$0"; flock 9; flock -u 9', flock]}
    for store, url in bench.urls.items():
        for name, option in (("keeper", ""), ("--no-keeper", "--no-keeper ")):
            take = f'eval "$("$0" acquire {option}--url "$1" "$2")" || exit; '
            commands[f"{store}, {name}"] = ["sh", "-c", take + script, bench.klock, url, "shell"]
    walls = Walls(bench, commands, rounds, runs)
    rows = [[name, walls.median(name), walls.best(name), walls.ratio(name, "flock FD")] for name in walls.names]
    report.add("shell", "a script that acquires and releases", ["tool", "median ms", "best ms", "/flock FD"], rows)
