"""A process that publishes in children, each of which is killed after one of its calls.

``python -m tests.support.dying_publisher``: an order (a line of JSON) on its input, an answer on its output. It has no threads
of its own when it forks, which a process of tests with its servers and its Spark could not say.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
import traceback
from typing import Any, NoReturn

import obstore  # noqa: F401  # loaded once, before the children

from ctr_samples.shards import open_storage
from tests.support.counted_calls import DiesAfter, Noted, requests, system_calls
from tests.support.small_publish import CONTROLS, SCENARIOS


def main() -> None:
    """Carry out orders until the input ends."""
    _warm_up()
    gc.freeze()
    for line in sys.stdin:
        print(json.dumps(_carried_out(json.loads(line))), flush=True)  # noqa: T201


def _warm_up() -> None:
    """Load and compile whatever is made when it is first used."""
    with tempfile.TemporaryDirectory() as place:
        SCENARIOS["first day"].publish(open_storage(place), 1)


def _carried_out(order: dict[str, Any]) -> dict[str, Any]:
    """Publish in a child. The answer has its exit code, negative for a signal, and its calls if it lived to tell them."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _publish_and_exit(order, writing)
    os.close(writing)
    with os.fdopen(reading) as told:
        calls = json.loads(told.read() or "[]")
    return {"exit": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), "calls": calls}


def _publish_and_exit(order: dict[str, Any], told: int) -> NoReturn:
    try:
        os.environ.update(order["environment"])
        if not order["sync"]:
            os.fsync = lambda fd: None  # still counted; what it does is for machines that die, not processes
        last = order["dies_after"]
        around = DiesAfter(last, half=order["half"]) if last else Noted()
        led = requests if "://" in order["url"] else system_calls
        with led(around):
            (SCENARIOS | CONTROLS)[order["scenario"]].publish(open_storage(order["url"]), order["run"])
        os.write(told, json.dumps(around.names).encode())
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


if __name__ == "__main__":
    main()
