# SPDX-License-Identifier: MIT
"""spin proves what handover.pml promises, in all states that there are; and each mutation of it fails as it must."""

import pathlib
import re
import subprocess
import sys
import tempfile

MODEL = pathlib.Path(__file__).with_name("handover.pml")
FAULTS = {"safety": 3, "liveness": 2}
SAFETY = (["-DSAFETY", "-DNOCLAIM"], [])
LIVENESS = (["-DNFAIR=8"], ["-a", "-f"])
OVERLAP = "assertion violated"
STUCK = "invalid end state"
STARVED = "acceptance cycle"
# What is left out, which search must find that, and as what.
MUTATIONS = (
    ("NO_CLAIM", SAFETY, OVERLAP),  # the command starts on the word that there is a grant
    ("NO_DEADLINE", SAFETY, OVERLAP),  # ... and on an answer that is older than its lease
    ("NO_GUARD", SAFETY, OVERLAP),  # a lease ends, its command goes on
    ("NO_COMPARE", SAFETY, OVERLAP),  # a release ends the hold of whoever has it
    ("NO_GRANT_EXPIRY", SAFETY, STUCK),  # the grant of a process that is dead stays
    ("NO_GRANT", SAFETY, STUCK),  # a release wakes nobody
    ("NO_GRANT", LIVENESS, STARVED),
    ("NO_NEXT", SAFETY, STUCK),  # nobody knows when a grant ends
    ("SUBSCRIBE_LATER", SAFETY, STUCK),  # what is told between the look and the subscription is lost
)


def search(definitions, how, directory):
    """What pan says of the model."""
    compiler_options, options = how
    spin = ["spin", *(f"-D{name}" for name in definitions), "-a", MODEL]
    compiler = ["gcc", "-w", "-O1", "-DCOLLAPSE", "-DMEMLIM=1024", *compiler_options, "-o", "pan", "pan.c"]
    pan = ["./pan", "-m100000", *options]
    for command in spin, compiler, pan:
        ran = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=600)
        said = ran.stdout + ran.stderr
        if ran.returncode != 0:
            sys.exit(f"{command[0]}: status {ran.returncode}\n{said}")
    return said


def errors_in(said):
    return int(re.search(r"errors: (\d+)", said).group(1))


def faults_of_proof(said):
    faults = [words for words in (OVERLAP + " (", STUCK + " (", STARVED + " (") if words in said]
    # Whatever cuts a search short.
    faults += [words for words in ("Search not completed", "too small", "truncated", "out of memory") if words in said]
    if errors_in(said) != 0:
        faults.append("errors")
    unreached = re.search(r"unreached in proctype Klock\n((?:\t.*\n)*)", said).group(1)
    faults += [f"never happens: {line.strip()}" for line in unreached.splitlines() if MODEL.name in line and "-end-" not in line]
    return faults


def main():
    faults = []
    with tempfile.TemporaryDirectory() as directory:
        for name, how in ("safety", SAFETY), ("liveness", LIVENESS):
            said = search([f"FAULTS={FAULTS[name]}"], how, directory)
            states = re.search(r"(\d+) states, stored", said).group(1)
            print(f"{name}: {states} states, {faults_of_proof(said) or 'proved'}")
            faults += faults_of_proof(said)
        for name, how, expected in MUTATIONS:
            said = search([name], how, directory)
            found = errors_in(said) == 1 and re.search(rf"pan:\d+: {expected}", said)
            print(f"{name}: {expected if found else 'NOT FOUND: ' + expected}")
            faults += [] if found else [name]
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
