# SPDX-License-Identifier: MIT
"""What each contender runs and which fault comes when, from the seed alone. The same seed gives the same plan; what is
in the middle of what when a fault comes differs from run to run, as the machine does."""
import random
from typing import NamedTuple, Optional

CONTENDERS = 16
HOSTS = 4  # each with its own way to the server

SLOT_COUNT = 2
# The first is crowded, so that there is a queue to be kept in order.
NAMES = {"hot": ["exclusive"], "mix": ["exclusive", "shared", "shared", "slots"], "pool": ["exclusive", "slots", "slots"],
         "own": ["exclusive"], "read": ["exclusive", "shared", "shared", "shared"]}
WEIGHTS = [5, 4, 2, 2, 2]
MODES = frozenset(mode for modes in NAMES.values() for mode in modes)


class Step(NamedTuple):
    """One `klock run`."""
    name: str
    mode: str
    ttl_ms: int
    hold_ms: int
    kind: str  # of the command, see job.c
    tree: bool
    wait: Optional[float]  # seconds; None: for ever
    limit: Optional[str]   # of prlimit(1), for klock
    pause_ms: int          # before it

    @property
    def kill_after_ms(self):
        """klock's own default."""
        return min(5000, self.ttl_ms // 3)

    def words(self):
        options = {"exclusive": [], "shared": ["--shared"], "slots": ["--slots", str(SLOT_COUNT)]}[self.mode]
        wait = [] if self.wait is None else ["--wait", str(self.wait)]
        return ["run", "-q", "--ttl", f"{self.ttl_ms}ms", *options, *wait, *(["--tree"] if self.tree else []), self.name]


def steps(seed, contender, modes=MODES):
    """Without end. `modes`: those that the store has."""
    chance = random.Random(f"{seed} contender {contender}")
    while True:
        name = chance.choices(list(NAMES), WEIGHTS)[0]
        kind = chance.choices(["plain", "polite", "stubborn", "family"], [3, 2, 3, 3])[0]
        short = chance.uniform(2, 40)
        hold = chance.choices([short, chance.uniform(40, 200), chance.uniform(600, 4000)], [70, 22, 8])[0]
        yield Step(name, chance.choice([mode for mode in NAMES[name] if mode in modes]), chance.choice([1000, 1000, 1500, 2000]), round(hold), kind,
                   kind == "family" and chance.random() < 0.3,
                   chance.choices([None, 0, round(chance.uniform(0.1, 2), 2)], [85, 5, 10])[0],
                   chance.choices([None, f"--nofile={chance.randrange(3, 16)}:", "--fsize=0:"], [95, 3, 2])[0],
                   round(chance.choice([0, chance.uniform(0, 30)])))


class Fault(NamedTuple):
    gap_ms: int  # after the one before
    kind: str
    target: float  # in [0, 1): which of those that can be hit
    length_ms: int


def faults(seed, weights, lengths):
    """Without end. `weights`: of each kind; `lengths`: the shortest and the longest duration (ms) of those that last."""
    chance = random.Random(f"{seed} faults")
    while True:
        kind = chance.choices(list(weights), list(weights.values()))[0]
        yield Fault(round(chance.uniform(100, 500)), kind, chance.random(), round(chance.uniform(*lengths.get(kind, (0, 0)))))
