"""One of two processes that put the same name at the same moment. Usage: python -m tests.storage.racer URL OWN_NAME

Reads lines ``path moment`` (of the machine's monotonic clock), and answers each with ``won`` or ``lost``.
"""

from __future__ import annotations

import sys
import time

from ctr_samples.shards import NameTaken, open_storage


def main(url: str, own_name: str) -> None:
    """Race as often as a line comes."""
    storage = open_storage(url)
    storage.names("")  # connects
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        path, moment = line.split()
        while time.monotonic() < float(moment):
            pass  # sleeping would wake late
        try:
            storage.put_new(path, own_name.encode())
            answer = "won"
        except NameTaken:
            answer = "lost"
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
