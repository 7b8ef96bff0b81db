# SPDX-License-Identifier: MIT
"""rediss://: the server's certificate is verified, ours is shown, and everything else is as without TLS."""
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess

import pytest
from support import shells
from support.certificates import Authority
from support.ports import free_port
from support.proc import SLOW, guard_of, holds_for, wait_until
from support.sentinels import Sentinels
from support.servers import FalseServer, Proxy


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    made = Authority(tmp_path_factory.mktemp("tls") / "authority")
    made.sign("server")
    made.sign("client", "DNS:client")
    return made


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    """An authority that nobody trusts."""
    made = Authority(tmp_path_factory.mktemp("tls") / "stranger")
    made.sign("server")
    made.sign("client", "DNS:client")
    return made


@pytest.fixture
def server(make_redis, authority):
    return make_redis(tls=authority.options())


def with_tls(klock, authority, client=None):
    """`client`: (certificate, key)."""
    klock.env["KLOCK_TLS_CA"] = str(authority.ca)
    if client:
        klock.env["KLOCK_TLS_CERT"], klock.env["KLOCK_TLS_KEY"] = map(str, client)
    return klock


@pytest.fixture
def on_tls(make_klock, server, authority):
    return with_tls(make_klock(server.tls_url), authority)


def files(authority, name):
    return authority.directory / f"{name}.crt", authority.directory / f"{name}.key"


def refused(klock, *words, status=77):
    """One line that has all these words; nothing runs, whatever the configuration says of absent stores."""
    done = klock.run("run", "--if-unavailable", "run", "--store-timeout", "20s", "n", "--", "touch", "ran", timeout=30)
    assert done.status == status and done.err.count("\n") == 1, (done.status, done.err)
    assert not os.path.exists(f"{klock.directory}/ran")
    for word in words:
        assert word in done.err, done.err
    return done


def test_run_status_and_hand_over(on_tls, server):
    holder = on_tls.hold("n", "-m", "weekly")
    state = on_tls.state("n")
    assert state["store"] == server.tls_url and state["holders"][0]["pid"] == holder.pid
    assert on_tls.run("run", "-n", "n", "--", "true").status == 75
    (waiter,) = on_tls.queue("n", 1)
    holder.send(signal.SIGTERM)
    assert holder.wait() == 143 and waiter.wait() == 0
    assert on_tls.run("force-release", "--yes", "n").status == 1
    assert "acquired" in on_tls.run("log", "n").out
    assert on_tls.run("doctor").status in (0, 1)
    clients = server.client().client_list()
    assert all(one["name"] != "klock" for one in clients)


def test_the_host_name_is_verified_too(make_klock, server, authority):
    klock = with_tls(make_klock(server.tls_url.replace("127.0.0.1", "localhost")), authority)
    assert klock.run("run", "n", "--", "true").status == 0


def test_the_lease_is_renewed(on_tls):
    done = on_tls.run("run", "--ttl", "1s", "n", "--", "sleep", "4", timeout=20)
    assert done.status == 0 and not done.err


def test_a_server_that_comes_back(make_klock, make_redis, authority):
    server = make_redis("--appendonly", "yes", "--appendfsync", "always", tls=authority.options())
    klock = with_tls(make_klock(server.tls_url), authority)
    holder = klock.hold("n", "--ttl", "12s", command="until test -e stop; do sleep 0.1; done")
    server.restart()
    holds_for(lambda: holder.status is None, 1)
    klock.let("stop")
    assert holder.wait() == 0 and klock.is_free("n")


def test_a_server_that_is_frozen_for_a_while(on_tls, server):
    holder = on_tls.hold("n", "--ttl", "12s", command="until test -e stop; do sleep 0.1; done")
    server.freeze()
    done = on_tls.run("run", "--store-timeout", "500ms", "other", "--", "true")
    assert done.status == 69 and done.seconds < 1 + SLOW
    assert "in the TLS handshake" in done.err
    waiting = on_tls.start("run", "--store-timeout", "1h", "other", "--", "true")
    holds_for(lambda: waiting.status is None, 0.5)
    waiting.send(signal.SIGTERM)
    assert waiting.wait(5) == 143, "a handshake can be interrupted"
    holds_for(lambda: holder.status is None, 1)
    server.thaw()
    on_tls.let("stop")
    assert holder.wait() == 0


def test_a_lost_reply_and_a_broken_connection(make_klock, server, authority):
    class OverTls:
        port = server.tls_port

    with Proxy(OverTls) as proxy:
        klock = with_tls(make_klock(f"rediss://127.0.0.1:{proxy.port}"), authority)
        holder = klock.hold("n", "--ttl", "6s", command="until test -e stop; do sleep 0.1; done")
        proxy.lose_reply()
        wait_until(lambda: proxy.lost, timeout=10, what="a renewal without an answer")
        holds_for(lambda: holder.status is None, 1)
        klock.let("stop")
        assert holder.wait() == 0 and klock.is_free("n")


def test_the_guard_releases_for_a_killed_klock(on_tls):
    holder = on_tls.hold("n", "--ttl", "1h")
    guard = guard_of(holder.pid)
    holder.send(signal.SIGKILL)
    wait_until(lambda: on_tls.is_free("n"), timeout=10, what=f"released by the guard {guard}")


def test_a_keeper_goes_on_with_the_connection(make_klock, make_redis, authority):
    server = make_redis(tls=authority.options(clients="yes"))
    klock = make_klock(server.tls_url)
    for file in (authority.ca, *files(authority, "client")):  # relative names, for a keeper that is elsewhere
        shutil.copy(file, klock.directory)
    klock = with_tls(klock, authority, ("client.crt", "client.key"))
    klock.env["KLOCK_TLS_CA"] = "ca.crt"
    script = shells.hold(klock, "n --ttl 1s")
    holds_for(lambda: klock.state("n")["state"] == "held" and script.status is None, 3)
    for kind in ("normal", "pubsub"):
        server.client().client_kill_filter(_type=kind, skipme=True)
    holds_for(lambda: klock.state("n")["state"] == "held" and script.status is None, 2)
    assert shells.finish(script) == 0
    wait_until(lambda: klock.is_free("n"), what="released")


def test_an_authority_that_is_not_trusted(make_klock, server, stranger):
    refused(make_klock(server.tls_url), "signed by no authority that we trust", "--tls-ca")
    refused(with_tls(make_klock(server.tls_url), stranger), "signed by no authority that we trust")


def test_a_directory_of_authorities(make_klock, server, authority, tmp_path):
    folder = tmp_path / "trusted"
    folder.mkdir()
    klock = with_tls(make_klock(server.tls_url), authority)
    klock.env["KLOCK_TLS_CA"] = str(folder)
    refused(klock, "signed by no authority that we trust")
    shutil.copy(authority.ca, folder / "own.pem")
    subprocess.run(["openssl", "rehash", folder], check=True)
    assert klock.run("run", "n", "--", "true").status == 0


@pytest.mark.parametrize("start, end, words", [(-2, -1, "has expired: it was valid until"),
                                               (1, 2, "is not valid yet, only from")])
def test_a_certificate_at_the_wrong_time(make_klock, make_redis, authority, start, end, words):
    authority.sign("elsewhen", start=start, end=end)
    server = make_redis(tls=authority.options("elsewhen"))
    done = refused(with_tls(make_klock(server.tls_url), authority), words, "clock of this host wrong?")
    assert re.search(r"20\d\d GMT", done.err)


def test_a_certificate_of_another_host(make_klock, make_redis, authority):
    authority.sign("other", "DNS:db.example.com,IP:10.0.0.1")
    server = make_redis(tls=authority.options("other"))
    klock = with_tls(make_klock(server.tls_url), authority)
    refused(klock, "not for 127.0.0.1, but for db.example.com, 10.0.0.1", "--tls-server-name")
    refused(with_tls(make_klock(server.tls_url.replace("127.0.0.1", "localhost")), authority), "not for localhost, but")
    for name in ("db.example.com", "10.0.0.1"):
        assert klock.run("run", "--tls-server-name", name, "n", "--", "true").status == 0
    klock.env["KLOCK_TLS_SERVER_NAME"] = "example.com"
    refused(klock, "not for example.com, but")


def test_a_certificate_that_is_signed_by_itself(make_klock, make_redis, authority, tmp_path):
    own = Authority(tmp_path / "own")
    shutil.copy(own.directory / "ca.crt", own.directory / "server.crt")
    shutil.copy(own.directory / "ca.key", own.directory / "server.key")
    server = make_redis(tls=own.options())
    refused(with_tls(make_klock(server.tls_url), authority), "signed by itself")
    klock = with_tls(make_klock(server.tls_url), own)
    refused(klock, "not for 127.0.0.1, but for test authority")
    assert klock.run("run", "--tls-server-name", "test authority", "n", "--", "true").status == 64


def test_hostile_names_in_a_certificate_are_harmless(make_klock, authority, tmp_path):
    own = Authority(tmp_path / "own")
    subject = "/CN=\x1b[31mred\nline" + "x" * 40
    certificate, key = own.directory / "evil.crt", own.directory / "evil.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-keyout", key, "-out", certificate, "-subj", subject, "-days", "1"], check=True, capture_output=True)
    own.ca = certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with FalseServer(lambda connection: context.wrap_socket(connection, server_side=True)) as server:
        done = refused(with_tls(make_klock(server.url.replace("redis:", "rediss:")), own), "not for 127.0.0.1, but for ")
        assert "\x1b" not in done.err


@pytest.mark.parametrize("versions", ["TLSv1.2", "TLSv1.3"])
def test_a_server_that_wants_a_certificate(make_klock, make_redis, authority, stranger, versions):
    server = make_redis("--tls-protocols", versions, tls=authority.options(clients="yes"))
    klock = with_tls(make_klock(server.tls_url), authority)
    refused(klock, "--tls-cert and --tls-key")
    klock = with_tls(klock, authority, files(authority, "client"))
    assert klock.run("run", "n", "--", "true").status == 0
    klock = with_tls(klock, authority, files(stranger, "client"))
    refused(klock, "does not accept our certificate", "--tls-cert")
    klock = with_tls(klock, authority, authority.sign("old", "DNS:client", start=-2, end=-1))
    refused(klock, "does not accept our certificate", "expired")


def test_files_that_do_not_fit_are_78_before_any_traffic(make_klock, authority, tmp_path):
    certificate, key = files(authority, "client")
    locked = tmp_path / "locked.key"
    subprocess.run(["openssl", "ec", "-in", key, "-aes128", "-passout", "pass:geheim", "-out", locked], check=True,
                   capture_output=True)
    with FalseServer() as server:
        def wrong(ca, cert, its_key, *words):
            klock = with_tls(make_klock(server.url.replace("redis:", "rediss:")), authority, (cert, its_key))
            klock.env["KLOCK_TLS_CA"] = str(ca)
            refused(klock, *words, status=78)

        wrong("/nonexistent", certificate, key, "tls-ca: /nonexistent: cannot read it: No such file")
        wrong(key, certificate, key, "tls-ca", "no certificate in it")
        wrong(authority.ca, key, key, "tls-cert", "no certificate in it")
        wrong(authority.ca, certificate, certificate, "tls-key", "no private key in it")
        wrong(authority.ca, certificate, "/nonexistent", "tls-key: /nonexistent: cannot read it")
        wrong(authority.ca, certificate, authority.directory / "server.key", "not that of the certificate")
        wrong(authority.ca, certificate, locked, "it has a password")
        wrong(authority.ca, certificate, tmp_path, "tls-key", "cannot read it")
        assert server.connections == 0


def test_a_certificate_without_a_key_is_refused_wherever_it_was_given(make_klock, authority):
    certificate, key = files(authority, "client")
    klock = make_klock("local:")
    done = klock.run("run", "--tls-cert", certificate, "n", "--", "true")
    assert done.status == 64 and "--tls-cert: a certificate without its key" in done.err
    klock.env["KLOCK_TLS_KEY"] = str(key)
    done = klock.run("run", "n", "--", "true")
    assert done.status == 78 and "KLOCK_TLS_KEY: a key without its certificate" in done.err
    assert klock.run("run", "--tls-cert", certificate, "n", "--", "true").status == 0


def test_the_configuration_file_has_the_names_of_the_options(make_klock, make_redis, authority):
    server = make_redis(tls=authority.options(clients="yes"))
    certificate, key = files(authority, "client")
    klock = make_klock()
    with open(f"{klock.directory}/klock.toml", "w", encoding="ascii") as file:
        file.write(f'url = "{server.tls_url}"\ntls-ca = "{authority.ca}"\ntls-cert = "{certificate}"\n'
                   f'tls-key = "{key}"\ntls-server-name = "localhost"\n')
    done = klock.run("run", "-v", "--config", "klock.toml", "n", "--", "true")
    assert done.status == 0 and f"tls-ca {authority.ca} (klock.toml:2)" in done.err


def test_a_server_without_tls(make_klock, redis, authority):
    klock = with_tls(make_klock(f"rediss://127.0.0.1:{redis.port}"), authority)
    done = klock.run("run", "--store-timeout", "1s", "n", "--", "true")
    assert done.status == 69 and "without TLS on this port?" in done.err or "does not speak TLS" in done.err

    def deny(connection):
        connection.recv(9999)
        connection.sendall(b"-DENIED Redis is running in protected mode\r\n")
        connection.recv(9999)

    with FalseServer(deny) as server:
        klock = with_tls(make_klock(f"rediss://127.0.0.1:{server.port}"), authority)
        refused(klock, "does not speak TLS on this port", status=69)
    with FalseServer(lambda connection: connection.recv(9999)) as server:
        done = with_tls(make_klock(f"rediss://127.0.0.1:{server.port}"), authority).run("run", "n", "--", "true")
        assert done.status == 69 and "closed the connection in the TLS handshake" in done.err


def test_a_client_without_tls_at_a_port_with_it(make_klock, server):
    done = make_klock(f"redis://127.0.0.1:{server.tls_port}").run("run", "n", "--", "true")
    assert done.status == 69 and "rediss://" in done.err


def test_a_version_that_is_too_old(make_klock, authority):
    certificate, key = files(authority, "server")
    port = free_port()
    old = subprocess.Popen(["openssl", "s_server", "-accept", f"127.0.0.1:{port}", "-cert", certificate, "-key", key,
                            "-tls1_1", "-cipher", "ALL@SECLEVEL=0", "-quiet"], stdin=subprocess.PIPE,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: connects(port), what="the old server listens")
        refused(with_tls(make_klock(f"rediss://127.0.0.1:{port}"), authority), "no version of TLS that klock does",
                status=69)
    finally:
        old.kill()
        old.wait()


def connects(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


def test_certificates_that_are_renewed_while_the_lock_is_held(make_klock, make_redis, authority, tmp_path):
    """Both sides get new ones, from another authority, and the connection is broken."""
    server = make_redis("--appendonly", "yes", tls=authority.options(clients="yes"))
    ca, certificate, key = (tmp_path / name for name in ("ca.crt", "client.crt", "client.key"))
    for source, target in zip((authority.ca, *files(authority, "client")), (ca, certificate, key)):
        shutil.copy(source, target)
    klock = with_tls(make_klock(server.tls_url), authority, (certificate, key))
    klock.env["KLOCK_TLS_CA"] = str(ca)
    holder = klock.hold("n", "--ttl", "12s", command="until test -e stop; do sleep 0.1; done")
    new = Authority(tmp_path / "new")
    new.sign("server")
    for source, target in zip((new.ca, *new.sign("client", "DNS:client")), (ca, certificate, key)):
        shutil.copy(source, target)
    server.options = tuple(word.replace(str(authority.directory), str(new.directory)) for word in server.options)
    server.restart()
    klock.let("stop")
    assert holder.wait() == 0 and klock.is_free("n")


def test_sentinels(make_klock, tmp_path, authority):
    site = Sentinels(tmp_path, tls=authority.options(clients="yes"))
    try:
        klock = with_tls(make_klock(site.url), authority, files(authority, "client"))
        assert site.url.startswith("rediss-sentinel://")
        holder = klock.hold("n", "--ttl", "30s", command="until test -e stop; do sleep 0.1; done")
        assert klock.state("n")["store"].startswith("rediss-sentinel://127.0.0.1:")
        assert site.servers[0].client().exists("klock:n")
        assert "3 of 3 name" in klock.run("doctor").out
        stranger = with_tls(make_klock(site.url), authority)
        refused(stranger, "the Sentinel 127.0.0.1:", "--tls-cert and --tls-key")
        stranger.env["KLOCK_TLS_CA"] = "/nonexistent"
        assert "Sentinel" not in refused(stranger, "tls-ca: /nonexistent", status=78).err.replace("-sentinel", "")
        plain = make_klock(site.url.replace("rediss", "redis")).run("run", "n", "--", "true")
        assert plain.status == 69
        old = site.master()
        old.kill()
        site.await_failover(old)
        klock.let("stop")
        assert holder.wait(30) in (0, 79), "what was not yet replicated may be lost"
        assert klock.run("run", "n", "--", "true", timeout=30).status == 0
    finally:
        site.end()


def test_a_redlock(make_klock, make_redis, authority, stranger):
    good = [make_redis(tls=authority.options()) for _ in range(2)]
    servers = [*good, make_redis(tls=stranger.options())]
    url = "redlocks://" + ",".join(f"127.0.0.1:{server.tls_port}" for server in servers)
    klock = with_tls(make_klock(url), authority)
    holder = klock.hold("n", "--ttl", "30s")
    assert all(server.client().exists("klock:n") for server in good)
    assert klock.state("n")["store"].startswith("redlocks://127.0.0.1:")
    holder.send(signal.SIGTERM)
    assert holder.wait() == 143 and klock.is_free("n")
    good[0].kill()
    done = klock.run("run", "n", "--", "true")
    assert done.status == 69 and "only 1 of 3" in done.err
    # Of those that are not trusted two are too many.
    klock = make_klock(url)
    klock.env["KLOCK_TLS_CA"] = str(stranger.ca)
    refused(klock, "only 1 of 3", status=69)
