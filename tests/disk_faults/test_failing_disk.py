"""A disk that is full, broken, over quota or read-only at any one call: what is told, and what readers see."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest

from ctr_samples.shards import open_storage
from tests.disk_faults.mounted_disk import Disk
from tests.support.small_publish import SCENARIOS, Outcome, check_and_go_on, outcome_of

ERRORS = [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS]
CALLS = [
    "create",
    "write",
    "fsync",
    "fsync of a directory",
    "close",
    "rename",
    "link",
    "unlink",
    "mkdir",
    "rmdir",
    "chmod",
]
LOOKS = ["open", "read", "list", "stat"]


@pytest.fixture
def prepared(scenario: str, tmp_path: Path) -> Path:
    """What a scenario finds, on a disk that works."""
    SCENARIOS[scenario].prepare(open_storage(tmp_path))
    return tmp_path


def number_of(disk: Disk, scenario: str, operation: str, prepared: Path) -> int:
    """How many calls of an operation an undisturbed publish makes."""
    place = disk.fresh(prepared)
    disk.work()
    SCENARIOS[scenario].publish(open_storage(place), 2)
    return disk.work().get(operation, 0)


def check_message(outcome: Outcome, place: Path, code: int) -> None:
    """Success, or a sentence that says what failed, where in the output, and why."""
    if outcome.message:
        assert re.search(rf"(Cannot (read|write) |whether ){place}(/\S*)?[ :]", outcome.message)
        assert os.strerror(code) in outcome.message
        assert "\n" not in outcome.message


@pytest.mark.parametrize("code", ERRORS, ids=errno.errorcode.get)
@pytest.mark.parametrize("operation", CALLS)
@pytest.mark.parametrize("scenario", ["first day", "overwrite", "damaged partial"])
def test_each_call_that_fails_in_turn_is_told_and_leaves_the_old_or_the_new(
    disk: Disk, scenario: str, prepared: Path, operation: str, code: int
) -> None:
    one = SCENARIOS[scenario]
    for number in range(1, number_of(disk, scenario, operation, prepared) + 1):
        place = disk.fresh(prepared)
        disk.fail(operation, number, code)
        outcome = outcome_of(one, open_storage(place))
        assert disk.work()[operation] >= number
        check_message(outcome, place, code)
        check_and_go_on(one, open_storage(place), outcome.allowed(one))


@pytest.mark.parametrize("operation", CALLS)
@pytest.mark.parametrize("scenario", ["day again", "append", "partial"])
def test_each_call_that_succeeds_and_says_otherwise_leaves_the_old_or_the_new(
    disk: Disk, scenario: str, prepared: Path, operation: str
) -> None:
    one = SCENARIOS[scenario]
    for number in range(1, number_of(disk, scenario, operation, prepared) + 1):
        place = disk.fresh(prepared)
        disk.fail(operation, number, errno.EIO, done=True)
        outcome = outcome_of(one, open_storage(place))
        assert disk.work()[operation] >= number
        check_message(outcome, place, errno.EIO)
        check_and_go_on(one, open_storage(place), outcome.allowed(one))


@pytest.mark.parametrize("operation", LOOKS)
@pytest.mark.parametrize("scenario", ["overwrite"])
def test_each_look_that_fails_in_turn_is_told_and_leaves_the_old_or_the_new(
    disk: Disk, scenario: str, prepared: Path, operation: str
) -> None:
    one = SCENARIOS[scenario]
    for number in range(1, number_of(disk, scenario, operation, prepared) + 1):
        place = disk.fresh(prepared)
        disk.fail(operation, number, errno.EIO)
        outcome = outcome_of(one, open_storage(place))
        disk.work()
        check_message(outcome, place, errno.EIO)
        check_and_go_on(one, open_storage(place), outcome.allowed(one))


@pytest.mark.parametrize("scenario", [name for name, one in SCENARIOS.items() if one.writes])
def test_a_disk_that_takes_half_of_each_write_gets_all(disk: Disk, scenario: str, prepared: Path) -> None:
    one = SCENARIOS[scenario]
    place = disk.fresh(prepared)
    whole = number_of(disk, scenario, "write", prepared)
    disk.write_short()
    assert outcome_of(one, open_storage(place)) == Outcome(True)
    assert disk.work()["write"] > 3 * whole
    check_and_go_on(one, open_storage(place), [one.after(one.old, 2)])
