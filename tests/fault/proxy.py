# SPDX-License-Identifier: MIT
"""The ways from the hosts to one server: a TCP proxy with a port for each host, in a process of its own.

    proxy.py SERVER_PORT PORT...      Orders on stdin, one a line, answered by "done":
    WAY pass|cut|blackhole|delay [MSEC]    WAY: the number of the port

cut: connections end, and new ones are refused at once. blackhole: what is under way is lost, and nothing comes any more,
until `pass` ends the connections that have missed something. delay: what the server says comes later by that much."""
import asyncio
import contextlib
import sys


class Way:
    def __init__(self, server_port):
        self._server_port, self._mode, self._delay = server_port, "pass", 0.0
        self._writers, self._damaged = set(), False

    def order(self, mode, msec="0"):
        self._mode, self._delay = mode, int(msec) / 1000
        if mode == "cut" or (mode == "pass" and self._damaged):
            for writer in list(self._writers):
                writer.transport.abort()
        self._damaged = mode == "blackhole"

    async def serve(self, reader, writer):
        if self._mode == "cut":
            writer.transport.abort()
            return
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        except OSError:
            writer.transport.abort()
            return
        ends = (writer, server_writer)
        self._writers.update(ends)
        forth = asyncio.create_task(self._pump(reader, server_writer))
        await self._pump_back(server_reader, writer)  # a server closes when its client has closed
        forth.cancel()
        for end in ends:
            self._writers.discard(end)
            end.transport.abort()

    async def _pump(self, reader, writer):
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if self._mode != "blackhole":
                    writer.write(data)
            if self._mode != "blackhole":
                writer.write_eof()

    async def _pump_back(self, reader, writer):
        loop, last = asyncio.get_running_loop(), 0.0
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                due = max(last, loop.time() + self._delay)
                if due > loop.time():
                    last = due
                    loop.call_at(due, self._deliver, writer, data)
                else:
                    self._deliver(writer, data)
        await asyncio.sleep(max(last - loop.time(), 0))

    def _deliver(self, writer, data):
        if self._mode != "blackhole" and not writer.is_closing():
            writer.write(data)


async def main(server_port, *ports):
    ways = [Way(int(server_port)) for _ in ports]
    for way, port in zip(ways, ports):
        await asyncio.start_server(way.serve, "127.0.0.1", int(port), backlog=512)
    loop = asyncio.get_running_loop()
    orders = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    print("done", flush=True)
    while line := await orders.readline():
        number, *order = line.decode().split()
        ways[int(number)].order(*order)
        print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
