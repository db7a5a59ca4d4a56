"""A user who may not write or read: one sentence that names what is closed to them. Needs root, who can become that user."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ctr_samples.shards import latest_manifest, open_storage
from tests.support.small_publish import DAY, SCENARIOS

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

ADVICE = "Check the store and the rights on it, then run again."


@pytest.fixture
def output() -> Iterator[Path]:
    """A published day that everyone may read and nobody but root may write, where all directories above can be entered."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)
    SCENARIOS["day again"].publish(open_storage(place / "out"), 1)
    yield place / "out"
    shutil.rmtree(place)


def as_nobody(action: str, directory: Path) -> Any:
    program = [sys.executable, "-m", "tests.disk_faults.as_nobody", action, str(directory)]
    return json.loads(subprocess.run(program, check=True, capture_output=True, text=True).stdout)


def test_everyone_may_read_what_is_published(output: Path) -> None:
    assert as_nobody("verify", output) == []
    assert as_nobody("show", output) == [{"row": 103, "clicked": 1}]


def test_an_output_that_may_not_be_written_is_named_before_any_work(output: Path) -> None:
    kind, message = as_nobody("publish", output)
    run = "20190606T020000-00000002"
    assert kind == "AccessDenied"
    assert message == f"Cannot write {output}/dt=2019-06-05/data/{run}/probe: Permission denied. {ADVICE}"
    assert SCENARIOS["day again"].runs_seen(open_storage(output)) == [1]


def test_a_directory_of_manifests_in_which_nothing_can_be_put_is_named_and_the_old_generation_stays(
    output: Path,
) -> None:
    (output / "dt=2019-06-05" / "data").chmod(0o777)
    kind, message = as_nobody("publish", output)
    assert kind == "AccessDenied"
    assert message == f"Cannot write {output}/dt=2019-06-05/manifests/00000002.json: Permission denied. {ADVICE}"
    assert SCENARIOS["day again"].runs_seen(open_storage(output)) == [1]


@pytest.mark.parametrize("action", ["publish", "verify", "show"])
def test_a_manifest_that_may_not_be_read_is_named_and_never_passed_over(output: Path, action: str) -> None:
    manifest = output / "dt=2019-06-05/manifests/00000001.json"
    manifest.chmod(0)
    assert as_nobody(action, output) == ["AccessDenied", f"Cannot read {manifest}: Permission denied. {ADVICE}"]


@pytest.mark.parametrize("action", ["publish", "verify"])
def test_a_directory_of_manifests_that_may_not_be_listed_is_named_and_not_taken_for_empty(
    output: Path, action: str
) -> None:
    manifests = output / "dt=2019-06-05/manifests"
    manifests.chmod(0o711)
    assert as_nobody(action, output) == ["AccessDenied", f"Cannot read {manifests}: Permission denied. {ADVICE}"]


def first_shard(output: Path) -> Path:
    manifest = latest_manifest(open_storage(output), DAY)
    assert manifest is not None
    return output / manifest.shards[0].path


def test_a_shard_that_may_not_be_read_is_one_sentence(output: Path) -> None:
    shard = first_shard(output)
    shard.chmod(0)
    sentence = f"Cannot read {shard}: Permission denied. {ADVICE}"
    assert as_nobody("verify", output) == [sentence]
    assert as_nobody("show", output) == ["AccessDenied", sentence]


def test_a_directory_that_may_not_be_listed_is_not_taken_for_one_without_files_of_others(output: Path) -> None:
    table = output.parent / "table"
    closed = table / "country=US"
    closed.mkdir(parents=True)
    (closed / "notes.txt").touch()
    table.chmod(0o777)
    closed.chmod(0)
    kind, message = as_nobody("check_writable", table)
    assert (kind, message) == ("AccessDenied", f"Cannot read {closed}: Permission denied. {ADVICE}")
