#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Scripts touch no key that is not in KEYS: a Cluster sends them by these, and ACLs are checked by these.

In src/store/redis/scripts the key of each redis.call() and redis.pcall() is KEYS[n], one of the names that common.lua and
log.lua give to KEYS, or a parameter or local variable that stands for one of these; it is never put together.
"""
import re
import sys

import surfaces

SCRIPTS = surfaces.ROOT / "src/store/redis/scripts"
# The first key is the second argument, but for these.
KEYLESS = {"TIME", "PUBLISH", "PUBSUB"}
CALL = re.compile(r"redis\.p?call\(([^()]*(?:\([^()]*\))?[^()]*)\)")
STANDING_FOR_KEYS = {"place", "set", "key"}


def names():
    """Those that stand for KEYS."""
    found = set()
    for path in SCRIPTS.glob("*.lua"):
        for left in re.findall(r"(?:local\s+)?([A-Z_,\s]+?)=\s*unpack\(KEYS", path.read_text()):
            found |= set(re.findall(r"[A-Z_]+", left))
    return found


def faults_in(name, text, known):
    text = re.sub(r"--[^\n]*", "", text)
    faults = []
    for match in CALL.finditer(text):
        words = [word.strip() for word in match.group(1).split(",")]
        command = words[0].strip("'")
        if command in KEYLESS:
            continue
        keys = words[1:] if command in ("EXISTS", "DEL") else words[1:2]
        for key in keys:
            if not re.fullmatch(r"KEYS\[\d+\]", key) and key not in known | STANDING_FOR_KEYS:
                faults.append(f"{name}: the key {key!r} of {command} is none of KEYS")
    # What stands for a key must come from one: not from a concatenation.
    for variable in sorted(STANDING_FOR_KEYS):
        for value in re.findall(rf"local {variable} = ([^\n]*)", text):
            if ".." in value or value.startswith("'"):
                faults.append(f"{name}: {variable} = {value} is put together")
    return faults


def main():
    if "--self-test" in sys.argv:
        known = {"K"}
        assert faults_in("x", "redis.call('GET', K)", known) == []
        assert faults_in("x", "redis.call('GET', 'klock:x')", known)
        assert faults_in("x", "redis.call('GET', K .. ':x')", known)
        assert faults_in("x", "redis.pcall('DEL', K, OTHER)", known)
        assert faults_in("x", "local key = K .. 'x'", known)
        assert faults_in("x", "redis.call(command, token)", known)
        assert len(names()) >= 15, names()
        return 0
    faults = []
    for path in sorted(SCRIPTS.glob("*.lua")):
        faults += faults_in(path.name, path.read_text(), names())
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
