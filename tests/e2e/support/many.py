# SPDX-License-Identifier: MIT
"""Thousands of locks at once: copies of one that klock has taken."""
import pathlib

SEED = "n00000"


def names(count):
    return [f"n{number:05}" for number in range(count)]


def copy_on_redis(client, count):
    """Copies the lock SEED, with all that klock keeps of it, `count` - 1 times. `client` decodes replies."""
    seeds = []
    for key in client.keys(f"*{SEED}*"):
        kind = client.type(key)
        content = client.get(key) if kind == "string" else client.hgetall(key)
        assert kind in ("string", "hash"), (key, kind)
        seeds.append((key, content, client.pttl(key)))
    index = "{klock:}:index"
    score = client.zscore(index, f"klock:{SEED}")
    pipe = client.pipeline(transaction=False)
    for name in names(count)[1:]:
        for key, content, left in seeds:
            copy = key.replace(SEED, name)
            if isinstance(content, str):
                pipe.set(copy, content.replace(SEED, name))
            else:
                pipe.hset(copy, mapping={field: value.replace(SEED, name) for field, value in content.items()})
            pipe.pexpire(copy, left)
        pipe.zadd(index, {f"klock:{name}": score})
    pipe.execute()


def copy_in(directory, count):
    """The same in a directory of the local store."""
    (seed,) = pathlib.Path(directory).glob(f"*{SEED}*")
    content = seed.read_bytes()
    for name in names(count)[1:]:
        seed.with_name(seed.name.replace(SEED, name)).write_bytes(content.replace(SEED.encode(), name.encode()))
