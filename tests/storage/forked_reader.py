"""Uses a storage, forks, and uses it in the child, or a file that was open; prints what the child read or why not.

Usage: URL PATH store|file
"""

from __future__ import annotations

import os
import signal
import sys
import time

from ctr_samples.errors import StorageError
from ctr_samples.shards import open_storage

PATIENCE_S = 20.0


def main(url: str, path: str, what: str) -> None:
    """The child writes to the same standard output; one that hangs, waiting for threads that only its parent has, is ended."""
    storage = open_storage(url)
    storage.read(path)
    opened = storage.open(path)
    child = os.fork()
    if child == 0:
        try:
            os.write(1, storage.read(path) if what == "store" else opened.read())
        except StorageError as error:
            os.write(1, f"{type(error).__name__}: {error}".encode())
        os._exit(0)
    deadline = time.monotonic() + PATIENCE_S
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            sys.stdout.write("the child hangs")
            return
        time.sleep(0.01)


if __name__ == "__main__":
    main(*sys.argv[1:])
