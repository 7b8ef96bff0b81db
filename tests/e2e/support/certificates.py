# SPDX-License-Identifier: MIT
"""An authority of the test's own, and certificates that it signs."""
import datetime
import subprocess

CONFIG = """[ca]
default_ca = own
[own]
database = {0}/index.txt
new_certs_dir = {0}
rand_serial = yes
default_md = sha256
policy = names
copy_extensions = copy
unique_subject = no
[names]
commonName = supplied
"""
KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
HERE = "DNS:localhost,IP:127.0.0.1"


def openssl(*words):
    done = subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


class Authority:
    """`ca` is the file with its certificate. What it signs is in NAME.crt and NAME.key of `directory`."""

    def __init__(self, directory):
        directory.mkdir()
        self.directory, self.ca = directory, directory / "ca.crt"
        (directory / "index.txt").touch()
        (directory / "ca.cnf").write_text(CONFIG.format(directory), encoding="ascii")
        openssl("req", "-x509", *KEY, "-keyout", directory / "ca.key", "-out", self.ca, "-subj", "/CN=test authority",
                "-days", "2")

    def sign(self, name, names=HERE, start=-1, end=24):
        """A certificate for `names` that is valid from `start` to `end`, in hours from now; returns it and its key."""
        certificate, key, request = (self.directory / f"{name}.{kind}" for kind in ("crt", "key", "csr"))
        openssl("req", *KEY, "-keyout", key, "-out", request, "-subj", f"/CN={name}", "-addext", f"subjectAltName={names}")
        now = datetime.datetime.now(datetime.timezone.utc)
        dates = [(now + datetime.timedelta(hours=hours)).strftime("%Y%m%d%H%M%SZ") for hours in (start, end)]
        openssl("ca", "-batch", "-notext", "-config", self.directory / "ca.cnf", "-cert", self.ca, "-keyfile",
                self.directory / "ca.key", "-in", request, "-out", certificate, "-startdate", dates[0], "-enddate", dates[1])
        return certificate, key

    def options(self, name="server", clients="no"):
        """Of a redis-server that shows this certificate; `clients`: whether it wants one, too."""
        return ["--tls-cert-file", str(self.directory / f"{name}.crt"), "--tls-key-file", str(self.directory / f"{name}.key"),
                "--tls-ca-cert-file", str(self.ca), "--tls-auth-clients", clients]
