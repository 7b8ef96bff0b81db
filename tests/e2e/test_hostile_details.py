# SPDX-License-Identifier: MIT
"""What another host has written about a lock, field by field: no terminal obeys it, and no line of it grows without end."""
import json
import re

import pytest
from support.proc import wait_until

EVIL = {
    "escapes": "\x1b]0;owned\x07\x1b[2J",
    "lines": "a\r\nklock: n: free\n\x0b\x0c\u2028b",
    "C1 controls": "\x9b31m\x85\x90\x9c",
    "directions": "\u202eend\u2066\u200b\ufeff\u061c",
    "tags": "\U000e0041\U000e007f",
    "a NUL": "a\0b",
    "backslashes": "\\x1b\\",
    "too long": "x" * 100_000,
    "long escapes": "\x1b" * 50_000,
}
RAW = {"broken UTF-8": b"\xff\xfe\x80a\xc3", "overlong UTF-8": b"\xc0\x9b\xe0\x80\x9b", "a surrogate": b"\xed\xa0\x80",
       "raw escapes": b"\x1b[31m", "half of it": b'a"', "nothing": b""}
FIELDS = ("user", "host", "program", "message", "name")
UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]")
LOOKS = (["status", "n"], ["list"], ["list", "--names"], ["run", "-n", "n", "--", "true"])


def replaced(details, field, value):
    """JSON with another value for a field: a text, or bytes that stand there as they are."""
    object = {**json.loads(details), field: "@VALUE@"}
    text = value if isinstance(value, bytes) else json.dumps(value)[1:-1].encode()
    return json.dumps(object).encode().replace(b"@VALUE@", text)


@pytest.fixture
def written(store, request):
    """(store, written(field, value), which changes what is written about the hold of `n`)."""
    store.hold("n", "-m", "why", "--ttl", "60s")
    if store.url.startswith("local:"):
        (path,) = request.getfixturevalue("local_directory").glob("*n.lock")
        details = path.read_bytes().split(b"\0")[0].decode()

        def write(field, value):
            with open(path, "r+b") as file:
                file.write(replaced(details, field, value)[:4095] + b"\0")
    else:
        client = request.getfixturevalue("client")
        ((token, entry),) = client.hgetall("{klock:n}:holders").items()
        head, details = entry[:entry.index("{")], entry[entry.index("{"):]

        def write(field, value):
            client.hset("{klock:n}:holders", token, head.encode() + replaced(details, field, value))
    return store, write


def check(done, what):
    shown = done.out + done.err
    assert done.status in (0, 1, 75, 79), (what, done.status, shown[:4000])
    assert not UNSAFE.search(shown), (what, shown[:4000])
    assert max(map(len, shown.splitlines() or [""])) < 4000, what
    assert "\nklock: n: free" not in "\n" + shown, what


@pytest.mark.parametrize("field", FIELDS)
def test_every_field_is_shown_safely(written, field):
    store, write = written
    for kind, value in {**EVIL, **RAW}.items():
        write(field, value)
        for words in LOOKS:
            check(store.run(*words), (field, kind, words))
        check(store.run("force-release", "--yes", "--stale", "n"), (field, kind, "force-release"))
        for words in (["status", "--json", "n"], ["list", "--json"]):
            done = store.run(*words)
            assert done.status == 0 and done.out.isascii(), (field, kind)
            assert json.loads(done.out)[0]["state"] == "held"


@pytest.mark.parametrize("kind", [*EVIL, *RAW])
def test_forced_release_shows_and_removes_it(written, kind):
    store, write = written
    for field in FIELDS[:4]:
        write(field, {**EVIL, **RAW}[kind])
        check(store.run("force-release", "--yes", "--id", "0123456789ab", "n"), (field, kind))
    done = store.run("force-release", "--yes", "--now", "n")
    check(done, kind)
    assert done.status == 0 and store.is_free("n"), done.err


@pytest.mark.parametrize("kind", [*EVIL, *RAW])
def test_waiters_are_shown_safely(on_redis, client, kind):
    on_redis.hold("n", "--ttl", "60s")
    on_redis.queue("n", 1, options=("--ttl", "60s"))
    ((token, entry),) = client.hgetall("{klock:n}:waiters").items()
    head, _, details = entry.partition("{")
    for field in FIELDS:
        client.hset("{klock:n}:waiters", token, head.encode() + replaced("{" + details, field, {**EVIL, **RAW}[kind]))
        for words in LOOKS:
            check(on_redis.run(*words), (field, kind, words))


@pytest.mark.parametrize("kind", EVIL)
def test_order_of_another_administrator_is_shown_safely(on_redis, client, kind):
    holder = on_redis.hold("n", "--ttl", "3s")
    hold = on_redis.state("n")["holders"][0]["id"]
    client.hset("{klock:n}:requests", hold, json.dumps({"by": EVIL[kind], "reason": EVIL[kind], "id": hold}))
    assert holder.wait() == 79
    assert "by force" in holder.err
    check(holder, kind)
    assert holder.err.count("\n") == 1


@pytest.mark.parametrize("kind", [kind for kind in EVIL if kind != "too long"])
def test_value_of_another_client_is_shown_safely(on_redis, client, kind):
    for make in (lambda: client.set("klock:n", EVIL[kind]), lambda: client.hset("klock:n", EVIL[kind], 1),
                 lambda: client.zadd("klock:n", {EVIL[kind]: 1})):
        make()
        waiter = on_redis.queue("n", 1)[0]
        for words in LOOKS:
            check(on_redis.run(*words), (kind, words))
        done = on_redis.run("force-release", "--yes", "--now", "n")
        check(done, kind)
        assert done.status == 0 and waiter.wait() == 0


@pytest.mark.parametrize("kind", [kind for kind in EVIL if kind not in ("too long", "long escapes")])
def test_names_in_the_index_are_shown_safely(on_redis, client, kind):
    client.set("klock:" + EVIL[kind], "x", ex=60)
    client.zadd("{klock:}:index", {"klock:" + EVIL[kind]: 2e12})
    for words in (["list"], ["list", "--names"], ["status"]):
        done = on_redis.run(*words)
        check(done, kind)
        assert done.out
    wait_until(lambda: len(json.loads(on_redis.run("list", "--json").out)) == 1)
