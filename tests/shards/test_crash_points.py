"""A publisher dies, or fails, at each of its calls in turn; readers see the old generation or the new one, whole.

So do runs that find partial results: each is whole or not there, and can be made.

Every call of every scenario takes minutes: ``CRASH_POINTS=all``. Without that, those calls that change something, of the
scenarios that differ most: where a call changes nothing, the next process finds what it finds without that call.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ctr_samples.shards import open_storage
from tests.support.counted_calls import CHANGES, CHANGING_REQUESTS, FailsOnce, Noted, requests, system_calls
from tests.support.marks import slow_except
from tests.support.small_publish import CONTROLS, SCENARIOS, check_and_go_on, outcome_of

ALL = os.environ.get("CRASH_POINTS") == "all"
ERRORS = (errno.ENOSPC, errno.EIO, errno.EDQUOT)


def scenarios(*representative: str, slow: Sequence[str] = ()) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("scenario", [*SCENARIOS] if ALL else [*representative, *slow_except((), slow)])


class Publisher:
    """The process whose children publish and die."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def publish(self, scenario: str, url: str, *, dies_after: int = 0, half: bool = False) -> Any:
        """Publish run 2; the exit code, and the names of the calls if no death was ordered."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        variables = {name: value for name, value in os.environ.items() if name.startswith(("AWS_", "NO_PROXY"))}
        order = {"scenario": scenario, "url": url, "run": 2, "dies_after": dies_after, "half": half, "sync": False}
        self._process.stdin.write(json.dumps(order | {"environment": variables}) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@pytest.fixture(scope="module")
def publisher() -> Iterator[Publisher]:
    program = [sys.executable, "-m", "tests.support.dying_publisher"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(program, **pipes, text=True, umask=0o077) as process:  # type: ignore[call-overload]
        yield Publisher(process)
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture
def fresh(scenario: str, tmp_path: Path) -> Callable[[], str]:
    """Another output directory with what the scenario finds, each time."""
    made = iter(range(10_000))
    (SCENARIOS | CONTROLS)[scenario].prepare(open_storage(tmp_path / "prepared"))

    def make() -> str:
        place = tmp_path / str(next(made))
        if (tmp_path / "prepared").exists():
            shutil.copytree(tmp_path / "prepared", place)
        return str(place)

    return make


@pytest.fixture
def fresh_bucket(scenario: str, s3: Any) -> Callable[[], str]:
    """Another prefix with what the scenario finds, each time."""
    made = iter(range(10_000))

    def make() -> str:
        url = f"s3://lake/{next(made)}"
        SCENARIOS[scenario].prepare(open_storage(url))
        return url

    return make


# A process that dies.


def die_everywhere(publisher: Publisher, name: str, fresh: Callable[[], str], changes: set[str]) -> list[str]:
    """Die after each call in turn, or each of ``changes``; the names of all calls."""
    scenario = (SCENARIOS | CONTROLS)[name]
    old, new = scenario.old, scenario.after(scenario.old, 2)
    url = fresh()
    whole = publisher.publish(name, url)
    assert whole["exit"] == 0
    assert check_and_go_on(scenario, open_storage(url), [new]) == new
    calls: list[str] = whole["calls"]
    commit = None
    for last, call in enumerate(calls, 1):
        if not (ALL or call in changes):
            continue
        url = fresh()
        assert publisher.publish(name, url, dies_after=last)["exit"] == -signal.SIGKILL, f"{last}: {call}"
        seen = check_and_go_on(scenario, open_storage(url), [old, new] if commit is None else [new])
        if seen == new:
            commit = commit or call
    assert commit in scenario.commits  # one call is the commit: nothing before it is seen, everything after it is
    return calls


@pytest.mark.thorough
@scenarios("overwrite", "partial", slow=("day again", "overwrite partitions", "damaged partial", "old partial"))
def test_dying_after_any_system_call_leaves_the_old_or_the_new(
    publisher: Publisher, scenario: str, fresh: Callable[[], str]
) -> None:
    calls = die_everywhere(publisher, scenario, fresh, CHANGES)
    if "partial" not in scenario:
        assert {*calls} | {"rmdir"} > CHANGES  # only the clean-up before a later generation removes directories


@scenarios("day again", "append", "partial")
def test_dying_in_the_middle_of_any_write_leaves_the_old(
    publisher: Publisher, scenario: str, fresh: Callable[[], str]
) -> None:
    one = SCENARIOS[scenario]
    calls = publisher.publish(scenario, fresh())["calls"]
    writes = [number for number, name in enumerate(calls, 1) if name == "write"]
    assert len(writes) == one.writes
    for last in writes:
        url = fresh()
        assert publisher.publish(scenario, url, dies_after=last, half=True)["exit"] == -signal.SIGKILL
        check_and_go_on(one, open_storage(url), [one.old])


@pytest.mark.parametrize("scenario", CONTROLS)
def test_a_wrong_way_is_seen(publisher: Publisher, scenario: str, fresh: Callable[[], str]) -> None:
    with pytest.raises(AssertionError, match=r"is missing; it is made anew"):
        die_everywhere(publisher, scenario, fresh, CHANGES)


@pytest.mark.thorough
@scenarios("first day")
def test_dying_while_a_directory_is_made_leaves_none_that_others_cannot_enter(
    publisher: Publisher, scenario: str, fresh: Callable[[], str]
) -> None:
    calls = publisher.publish(scenario, fresh())["calls"]
    for last, call in enumerate(calls, 1):
        if call not in ("mkdir", "chmod", "rename"):
            continue
        url = fresh()
        publisher.publish(scenario, url, dies_after=last)
        assert modes_of_directories(Path(url)) <= {0o755}, f"{last}: {call}"
        SCENARIOS[scenario].publish(open_storage(url), 3)
        assert modes_of_directories(Path(url)) == {0o755}


def modes_of_directories(root: Path) -> set[int]:
    """Of an output and all below it that have a name yet."""
    directories = [place for place in (root, *root.rglob("*")) if place.is_dir()]
    return {stat.S_IMODE(place.stat().st_mode) for place in directories if not place.name.startswith(".")}


@pytest.mark.thorough
@scenarios("partial", slow=("first day",))
def test_dying_after_any_request_leaves_the_old_or_the_new(
    publisher: Publisher, scenario: str, fresh_bucket: Callable[[], str]
) -> None:
    calls = die_everywhere(publisher, scenario, fresh_bucket, CHANGING_REQUESTS)
    assert {*calls} > CHANGING_REQUESTS or "partial" in scenario


# A process that gets an error and lives on.


def fail_everywhere(
    name: str, fresh: Callable[[], str], led: Callable[..., Any], some: set[str], error: OSError | None, *, done: bool
) -> None:
    """Let each call in turn, or each of ``some``, fail once. Without ``error`` it is one of three, by turns."""
    scenario = SCENARIOS[name]
    clean = Noted()
    with led(clean):
        scenario.publish(open_storage(fresh()), 2)
    for failing, call in enumerate(clean.names, 1):
        if not (ALL or call in some):
            continue
        url = fresh()
        storage = open_storage(url)
        code = ERRORS[failing % len(ERRORS)]
        with led(FailsOnce(failing, error or OSError(code, os.strerror(code)), done=done)):
            outcome = outcome_of(scenario, storage)
        assert open_files_below(url) == []
        check_and_go_on(scenario, storage, outcome.allowed(scenario))


def open_files_below(place: str) -> list[str]:
    """Files that this process has open below a directory, where the system tells."""
    targets = []
    for handle in Path("/proc/self/fd").glob("*"):
        with suppress(FileNotFoundError):  # another thread has closed it since
            targets.append(os.readlink(handle))
    return [target for target in targets if target.startswith(f"{place}/")]


@pytest.mark.thorough
@scenarios("partial", slow=("day again", "damaged partial"))
def test_a_system_call_that_fails_is_an_expected_error_and_leaves_the_old_or_the_new(
    scenario: str, fresh: Callable[[], str]
) -> None:
    fail_everywhere(scenario, fresh, system_calls, CHANGES | {"fsync", "close", "listdir"}, None, done=False)


@pytest.mark.thorough
@scenarios("create", "partial")
def test_a_system_call_whose_answer_is_lost_is_an_expected_error_and_leaves_the_old_or_the_new(
    scenario: str, fresh: Callable[[], str]
) -> None:
    fail_everywhere(scenario, fresh, system_calls, CHANGES, None, done=True)


@pytest.mark.slow
@pytest.mark.parametrize("done", [False, True] if ALL else [True])
@scenarios("first day", "partial", "old partial")
def test_a_request_that_fails_or_loses_its_answer_leaves_the_old_or_the_new(
    scenario: str, fresh_bucket: Callable[[], str], *, done: bool
) -> None:
    reset = ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
    fail_everywhere(scenario, fresh_bucket, requests, CHANGING_REQUESTS, reset, done=done)
