# SPDX-License-Identifier: MIT
"""Where values come from, who wins, and that no secret ever shows."""
import os
import re

import pytest
import redis
from support.proc import marked, memory_of, wait_until

SECRET = "s3cret-pa55"


@pytest.fixture
def locked_redis(make_redis):
    return make_redis("--requirepass", SECRET)


def write_config(klock, text, where="config/klock"):
    path = os.path.join(klock.directory, where, "klock.toml")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def setting(done, name):
    """'15s (default)' of the line of -v that tells setting `name`."""
    match = re.search(rf"\b{name}:? (.*\))$", done.err, re.MULTILINE)
    assert match, (name, done.err)
    return match[1]


def test_default_is_told_with_its_origin(on_local):
    assert setting(on_local.run("run", "-v", "n", "true"), "ttl") == "15s (default)"


def test_flag_beats_environment_beats_file(on_local):
    path = write_config(on_local, 'ttl = "20s"\n')
    assert re.fullmatch(rf"20s \({re.escape(path)}(:1)?\)", setting(on_local.run("run", "-v", "n", "true"), "ttl"))
    env = {"KLOCK_TTL": "21"}
    assert setting(on_local.run("run", "-v", "n", "true", env=env), "ttl") == "21s (KLOCK_TTL)"
    assert setting(on_local.run("run", "-v", "--ttl", "22", "n", "true", env=env), "ttl") == "22s (--ttl)"


def test_home_config_is_used_without_XDG_CONFIG_HOME(on_local):
    del on_local.env["XDG_CONFIG_HOME"]
    path = write_config(on_local, "ttl = 33\n", "home/.config/klock")
    assert path in setting(on_local.run("run", "-v", "n", "true"), "ttl")


def test_config_option_replaces_the_users_file(on_local, tmp_path):
    write_config(on_local, 'ttl = "20s"\nkill-after = "1s"\n')
    other = tmp_path / "other.toml"
    other.write_text('ttl = "1m"\n')
    done = on_local.run("run", "-v", "--config", str(other), "n", "true")
    assert setting(done, "ttl").startswith("1m (") and setting(done, "kill-after").endswith("(default)")
    done = on_local.run("run", "-v", "n", "true", env={"KLOCK_CONFIG": str(other)})
    assert setting(done, "ttl").startswith("1m (")


def test_file_can_set_any_option_of_run(store):
    write_config(store, 'wait = 0\nconflict-exit-code = 9\nmessage = "from the file"\n')
    holder = store.start("run", "n", "--", "sleep", "1000")
    wait_until(lambda: not store.is_free("n"))
    done = store.run("run", "n", "true")
    assert done.status == 9 and "from the file" in done.err
    assert holder.status is None


def test_url_of_the_file_chooses_the_store(make_klock, redis, client):
    klock = make_klock()
    write_config(klock, f'url = "{redis.url}/3"\nprefix = "app:"\n')
    klock.hold("n")
    assert redis.client(db=3).exists("app:n") and not client.exists("app:n")


def test_prefix_from_the_environment_and_key_from_the_option(on_redis, client):
    on_redis.hold("n", env={"KLOCK_PREFIX": "pre:"})
    on_redis.hold("m", "--key", "exactly-this")
    assert client.exists("pre:n") and client.exists("exactly-this")


def test_local_is_the_default(make_klock):
    klock = make_klock()
    assert "local:" in klock.run("run", "-v", f"klock-test-{klock.mark}", "true").err


def password_ways(klock, server, tmp_path, way):
    """Environment that gives the password in each way there is."""
    url, path = f"redis://127.0.0.1:{server.port}", tmp_path / "password"
    path.write_text(SECRET + "\n")
    if way == "config":
        write_config(klock, f'url = "redis://:{SECRET}@127.0.0.1:{server.port}"\n')
        return {}
    return {"url": {"KLOCK_URL": f"redis://:{SECRET}@127.0.0.1:{server.port}"},
            "user": {"KLOCK_URL": f"redis://default:{SECRET}@127.0.0.1:{server.port}"},
            "percent": {"KLOCK_URL": f"redis://:{SECRET.replace('-', '%2D')}@127.0.0.1:{server.port}"},
            "file": {"KLOCK_URL": url, "KLOCK_PASSWORD_FILE": str(path)},
            "rediscli": {"KLOCK_URL": url, "REDISCLI_AUTH": SECRET}}[way]


@pytest.mark.parametrize("way", ["url", "user", "percent", "file", "rediscli", "config"])
def test_password_works_and_never_shows(make_klock, locked_redis, tmp_path, way):  # C60
    klock = make_klock()
    env = password_ways(klock, locked_redis, tmp_path, way)
    holder = klock.hold("n", "-v", env=env)
    for process in marked(klock.mark):
        assert SECRET.encode() not in memory_of(process.pid, "cmdline")
        if way in ("file", "config"):
            assert SECRET.encode() not in memory_of(process.pid, "environ"), process
    shown = [holder.err]
    for words in (["status", "n"], ["status", "--json"], ["list"], ["list", "--json"], ["run", "-n", "-v", "n", "true"]):
        done = klock.run(*words, env=env)
        assert done.status in (0, 75), done.err
        shown += [done.out, done.err]
    assert not [text for text in shown if SECRET in text or "pa55" in text]
    data = redis.Redis(port=locked_redis.port, password=SECRET)
    assert not [key for key in data.keys("*") if SECRET.encode() in key + data.dump(key)]


def test_password_shows_in_no_failure(make_klock, locked_redis):
    klock = make_klock(f"redis://:{SECRET}-wrong@127.0.0.1:{locked_redis.port}")
    refused = klock.run("run", "-v", "n", "true")
    assert refused.status == 77 and SECRET not in refused.err
    locked_redis.kill()
    down = klock.run("run", "-v", "n", "true")
    assert down.status == 69 and SECRET not in down.err
    bad = klock.run("run", "n", "true", env={"KLOCK_URL": f"redis://:{SECRET}@host:port/x"})
    assert bad.status == 78 and SECRET not in bad.err
