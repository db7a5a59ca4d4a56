"""A process that writes into a file and says so, to be killed while the file is open. Usage: URL PATH BYTES"""

from __future__ import annotations

import sys

from ctr_samples.shards import open_storage


def main(url: str, path: str, size: str) -> None:
    """Write, then wait for the end."""
    with open_storage(url).new_file(path) as file:
        file.write(bytes(int(size)))
        sys.stdout.write("writing\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
