"""Stands between a client and an HTTP server on loopback, passes requests on, and loses or changes replies as it is told."""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

Loses = Callable[[str], bool]
"""Whether the reply to a request, given by its first line, is lost."""


class Answer(NamedTuple):
    """A status that the client gets in place of the reply, and whether the server gets the request."""

    status: int
    stored: bool

    @property
    def reply(self) -> bytes:
        """The reply, with a hint when to try again."""
        body = b"<Error><Code>OperationAborted</Code><Message>Try again.</Message></Error>"
        head = f"HTTP/1.1 {self.status} Answer\r\nRetry-After: 0\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        return head.encode() + body


Answers = Callable[[str], Answer | None]


class LossyProxy(socketserver.ThreadingTCPServer):
    """Each request travels alone to the server; where the reply is lost, the client sees its connection reset."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, server: tuple[str, int]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind = server
        self.requests: list[str] = []
        self.loses: Loses = lambda line: False
        self.answers: Answers = lambda line: None

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def lose_first(self, method: str, part: str) -> None:
        """Lose the reply to the next request with a method whose line has a part, and no other."""
        left = [True]

        def first(line: str) -> bool:
            return line.startswith(f"{method} ") and part in line and bool(left) and left.pop()

        self.loses = first

    def answer(self, status: int, part: str, *, stored: bool, times: int = 1) -> None:
        """Answer the first puts that create an object, and whose line has a part, with a status, ``stored`` or not."""
        seen: Counter[str] = Counter()

        def answer(line: str) -> Answer | None:
            if not line.startswith("PUT ") or part not in line:
                return None
            seen[line] += 1
            return Answer(status, stored) if seen[line] <= times else None

        self.answers = answer


@contextmanager
def lossy_proxy(server: tuple[str, int]) -> Iterator[LossyProxy]:
    """A proxy that runs in a thread of this process while the block does."""
    with LossyProxy(server) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()


class _Handler(socketserver.StreamRequestHandler):
    """One connection of a client, which may send several requests."""

    server: LossyProxy

    def handle(self) -> None:
        with suppress(ConnectionError):
            while request := self._request():
                line, data = request
                self.server.requests.append(line)
                answer = self.server.answers(line) if b"\nif-none-match:" in data.lower() else None
                reply = b"" if answer and not answer.stored else _asked(self.server.behind, data)
                reply = answer.reply if answer else reply
                if self.server.loses(line):
                    no_wait = struct.pack("ii", 1, 0)
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_wait)  # close() then resets
                else:
                    self.wfile.write(reply)
                return

    def _request(self) -> tuple[str, bytes] | None:
        """The first line of the next request, and all of it, made to end its connection."""
        first = self.rfile.readline()
        if not first:
            return None
        headers = [line for line in iter(self.rfile.readline, b"\r\n") if not line.lower().startswith(b"connection:")]
        length = next((int(line.split(b":")[1]) for line in headers if line.lower().startswith(b"content-length:")), 0)
        head = first + b"".join(headers) + b"Connection: close\r\n\r\n"
        return first.decode().strip(), head + self.rfile.read(length)


def _asked(server: tuple[str, int], request: bytes) -> bytes:
    with socket.create_connection(server) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))
