"""A real PostgreSQL on loopback, with a user that has a password, run as a user who is not root."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.daemons import call, daemons_in, free_port
from tests.support.project import PROJECT

SERVERS = PROJECT / "build" / "servers"
PASSWORD = "hush-hush"
_PROGRAMS = "/usr/lib/postgresql/*/bin/postgres"


@dataclass(frozen=True, slots=True)
class Database:
    """Where the server listens."""

    programs: Path
    port: int
    place: Path

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"

    def command(self) -> list[str]:
        """psql, which fails at the first error and prints values alone."""
        address = f"postgresql://shop:{PASSWORD}@127.0.0.1:{self.port}/postgres"
        return [str(self.programs / "psql"), "-XAtq", "-v", "ON_ERROR_STOP=1", address]

    def run(self, *statements: str) -> str:
        """What the statements print, each in a transaction of its own."""
        asked = [part for statement in statements for part in ("-c", statement)]
        done = subprocess.run([*self.command(), *asked], capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def kill(self) -> None:
        """End the server at once, as if its machine had failed."""
        process = int((self.place / "data/postmaster.pid").read_text().splitlines()[0])
        os.kill(process, signal.SIGKILL)


def driver() -> Path | None:
    """The JDBC driver that tools/source-servers fetches."""
    return next(iter(sorted((SERVERS / "jdbc").glob("postgresql-*.jar"))), None)


def missing() -> str | None:
    """Why PostgreSQL cannot be started here, or None."""
    if _programs() is None:
        return "PostgreSQL not found; tools/source-servers installs it where it may"
    if driver() is None:
        return "the JDBC driver of PostgreSQL not found; tools/source-servers fetches it"
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        return "setpriv not found, and PostgreSQL refuses to run as root"
    return None


@contextmanager
def running_database(directory: Path) -> Iterator[Database]:
    """Make an empty database in a directory that every user may enter, start it, and end it with the block."""
    programs, port = _programs(), free_port()
    assert programs is not None
    (directory / "password").write_text(PASSWORD)
    place = directory / "server"
    place.mkdir()
    if os.geteuid() == 0:
        for path in (directory / "password", place):
            shutil.chown(path, "nobody")
    login = ["--username=shop", f"--pwfile={directory}/password", "--auth=scram-sha-256"]
    call([*_as_nobody(), programs / "initdb", *login, "--no-sync", "-D", place / "data"], place)
    with daemons_in(place) as daemons:
        settings = [f"port={port}", "listen_addresses=127.0.0.1", f"unix_socket_directories={place}", "fsync=off"]
        options = [part for setting in settings for part in ("-c", setting)]
        daemons.start("postgres", [*_as_nobody(), programs / "postgres", "-D", place / "data", *options])
        ready = [str(programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
        daemons.wait_until(lambda: subprocess.run(ready, check=False).returncode == 0, "PostgreSQL")
        yield Database(programs, port, place)


def _programs() -> Path | None:
    found = sorted(Path("/").glob(_PROGRAMS.lstrip("/")))
    return found[-1].parent if found else None


def _as_nobody() -> list[str]:
    if os.geteuid() != 0:
        return []
    return ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--pdeathsig", "KILL"]
