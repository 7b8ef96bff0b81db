# SPDX-License-Identifier: MIT
"""Independent Redis servers, as a Redlock wants them."""
from .servers import RedisServer


class Independent:
    """`servers`: they know nothing of each other."""

    def __init__(self, directory, count=5, *options):
        self.servers = []
        for number in range(count):
            place = directory / f"independent{number}"
            place.mkdir()
            self.servers.append(RedisServer(place, *options))

    @property
    def url(self):
        return self.url_of(len(self.servers))

    def url_of(self, count):
        """Of the first few."""
        return "redlock://" + ",".join(f"127.0.0.1:{server.port}" for server in self.servers[:count])

    def values(self, key="klock:n"):
        """What each of the servers that run has at the key."""
        return [server.client(socket_timeout=5).get(key) for server in self.servers if server.popen.poll() is None]

    def end(self):
        for server in self.servers:
            server.thaw()
            server.kill()
