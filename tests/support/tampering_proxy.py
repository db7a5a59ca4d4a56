"""Stands between a client and an HTTP server on loopback, and does harm to single requests or replies as it is told."""

from __future__ import annotations

import http.client
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal, NamedTuple


class Answer(NamedTuple):
    """A status that the client gets in place of the reply, and whether the server does as asked."""

    status: int
    after_all: bool


Fault = Literal[
    "request lost",
    "reply lost",
    "reply left out",
    "reply cut",
    "refused",
    "refused after all",
    "error",
    "error after all",
    "slow down",
]
"""What happens to a request. ``... after all``: the server does as asked, and the client is told that it did not. Where a
reply is lost, the client sees its connection reset; where it is left out, closed.
"""

_ANSWERS = {
    "refused": Answer(403, False),
    "refused after all": Answer(403, True),
    "error": Answer(500, False),
    "error after all": Answer(500, True),
    "slow down": Answer(503, False),
}


@dataclass(slots=True)
class Harm:
    """What is done to the requests of one method whose path has a part, as often as ``times`` says.

    With ``creations`` only to those that create an object, so often to each.
    """

    method: str
    part: str
    fault: Fault | Answer
    times: float
    creations: bool
    meanwhile: Callable[[], object]
    seen: Counter[str] = field(default_factory=Counter)

    def takes(self, method: str, path: str, *, creates: bool) -> bool:
        """Whether this request is one of them."""
        if method != self.method or self.part not in path or (self.creations and not creates):
            return False
        alike = path if self.creations else ""
        self.seen[alike] += 1
        return self.seen[alike] <= self.times


class TamperingProxy(ThreadingHTTPServer):
    """Passes each request on alone, with all its headers but :attr:`stripped`, and notes it in :attr:`requests`."""

    daemon_threads = True

    def __init__(self, behind: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind = behind
        self.requests: list[str] = []
        self.stripped = ""
        self._harms: list[Harm] = []
        self._lock = threading.Lock()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def harm(
        self,
        method: str,
        part: str,
        fault: Fault | Answer,
        *,
        times: float = 1,
        creations: bool = False,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> None:
        """Do ``fault`` to the next requests like that; ``meanwhile`` happens before the client learns of anything."""
        self._harms.append(Harm(method, part, fault, times, creations, meanwhile))

    def noted(self, method: str, path: str, *, creates: bool) -> Harm | None:
        """Note a request; what is to be done to it."""
        with self._lock:
            self.requests.append(f"{method} {path}")
            return next((harm for harm in self._harms if harm.takes(method, path, creates=creates)), None)

    def count(self, method: str, part: str) -> int:
        """How often such a request has come."""
        return sum(line.startswith(f"{method} ") and part in line for line in self.requests)


@contextmanager
def tampering_proxy(behind: int) -> Iterator[TamperingProxy]:
    """A proxy in a thread of this process, before the server at the port ``behind``."""
    with TamperingProxy(behind) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    """One request, which ends its connection."""

    server: TamperingProxy

    def handle_one_request(self) -> None:
        with suppress(ConnectionError):
            super().handle_one_request()

    def do_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        harm = self.server.noted(self.command, self.path, creates="If-None-Match" in self.headers)
        if harm is None:
            self._pass(*self._ask(body))
            return
        answer = harm.fault if isinstance(harm.fault, Answer) else _ANSWERS.get(harm.fault)
        arrives = answer.after_all if answer else harm.fault != "request lost"
        reply = self._ask(body) if arrives else None
        harm.meanwhile()
        if answer:
            self._say(answer.status)
        elif harm.fault != "reply left out":
            if harm.fault == "reply cut" and reply is not None:
                self._pass(*reply, cut=True)
            self._reset()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_any  # noqa: N815 (http.server calls these)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        """Keep quiet; :attr:`TamperingProxy.requests` has them all."""

    def _ask(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.behind)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():  # the signature covers the host that the client knows
                if name.lower() not in ("connection", "expect", self.server.stripped):
                    connection.putheader(name, value)
            connection.endheaders(body)
            reply = connection.getresponse()
            return reply.status, reply.getheaders(), reply.read()
        finally:
            connection.close()

    def _pass(self, status: int, headers: list[tuple[str, str]], body: bytes, *, cut: bool = False) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("connection", "keep-alive", "transfer-encoding", "content-length"):
                self.send_header(name, value)
        length = {name.lower(): value for name, value in headers}.get("content-length", str(len(body)))
        self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if cut else body)

    def _say(self, status: int) -> None:
        body = b"<Error><Code>Tampered</Code><Message>as the test says</Message></Error>"
        self._pass(status, [("Content-Type", "application/xml")], b"" if self.command == "HEAD" else body)

    def _reset(self) -> None:
        """Have the client see its connection reset."""
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()
