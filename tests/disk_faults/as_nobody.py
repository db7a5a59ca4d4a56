"""A process that loads everything as root, which may read it, and then does one thing as a user without rights.

``python -m tests.disk_faults.as_nobody ACTION DIRECTORY``: prints what was found, as JSON, or a list of the error's class and
message.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from ctr_samples.records.read import damage_of, first_examples
from ctr_samples.shards import Storage, Table, open_storage, require_manifest
from tests.support.small_publish import CONTRACT, DAY, SCENARIOS

NOBODY = 65534


def publish(storage: Storage) -> str:
    SCENARIOS["day again"].publish(storage, 2)
    return "published"


def verify(storage: Storage) -> list[str]:
    return list(damage_of(storage, require_manifest(storage, DAY).shards))


def show(storage: Storage) -> Any:
    return first_examples(storage, require_manifest(storage, DAY).shards, CONTRACT, 1)


def check_writable(storage: Storage) -> str:
    Table(storage).check_writable("20190606T020000-00000002")
    return "writable"


ACTIONS: dict[str, Callable[[Storage], Any]] = {
    "publish": publish,
    "verify": verify,
    "show": show,
    "check_writable": check_writable,
}


def main(action: str, directory: str) -> None:
    """Do everything once in vain, so that all is loaded, then once as nobody."""
    with tempfile.TemporaryDirectory() as place:
        for name in ("publish", "verify", "show"):
            ACTIONS[name](open_storage(place))
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    try:
        found = ACTIONS[action](open_storage(directory))
    except Exception as error:
        found = [type(error).__name__, str(error)]
    print(json.dumps(found))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
