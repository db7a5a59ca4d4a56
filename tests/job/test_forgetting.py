"""Samples of users who are to be forgotten: the next generation lacks them, and all others keep their bytes."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from small_days import CONTRACT, published, rows
from typer.testing import CliRunner, Result

from ctr_samples.cli import app
from ctr_samples.contract import ExampleContract
from ctr_samples.errors import UsageError
from ctr_samples.job.gate import read_metrics
from ctr_samples.periods import parse_period
from ctr_samples.records.read import damage_of, records_of
from ctr_samples.shards import Manifest, latest_manifest, open_storage
from ctr_samples.shards.rollback import rollback

DAY = parse_period("2019-06-05")
GONE = ("n7", "n8", "n399", "n450")
"""Names that one sample each has: three of train, the last of eval."""


def publish_two_days(root: Path, compression: str = "none") -> None:
    for day in ("2019-06-05", "2019-06-06"):
        start = 0 if day == "2019-06-05" else 1000
        published(
            root, CONTRACT, lambda split, first, start=start: rows(start + first, 50), day=day, compression=compression
        )


def forget(root: Path, tmp_path: Path, values: str, key: str = "name") -> Result:
    file = tmp_path / "values.txt"
    file.write_text(values)
    return CliRunner().invoke(app, ["forget", str(root), "--key", key, "--values", str(file)])


def frames(root: Path, manifest: Manifest) -> list[bytes]:
    """The records of each split in their published order."""
    storage = open_storage(root)
    chunks = [
        chunk for split in manifest.splits for shard in manifest.of_split(split) for chunk in records_of(storage, shard)
    ]
    return [bytes(chunk.records(n, n + 1)) for chunk in chunks for n in range(len(chunk))]


def current(root: Path, day: str = "2019-06-05") -> Manifest:
    manifest = latest_manifest(open_storage(root), parse_period(day))
    assert manifest is not None
    return manifest


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_the_next_generation_lacks_them_and_all_others_keep_their_bytes_and_their_order(
    tmp_path: Path, compression: str
) -> None:
    root = tmp_path / "samples"
    publish_two_days(root, compression)
    before = current(root)
    done = forget(root, tmp_path, "\n".join([*GONE, "nobody", ""]))
    assert (done.exit_code, done.stdout) == (0, f"{root}/dt=2019-06-05/manifests/00000002.json\n")
    assert "Forgot 4 sample(s) of 1 day(s)." in done.stderr
    after = current(root)
    names = [name.encode() + b"\n" for name in GONE]
    staying = [frame for frame in frames(root, before) if not any(_has(frame, name[:-1]) for name in names)]
    assert len(staying) == 496
    assert frames(root, after) == staying
    assert dict(after.accounting) == {**before.accounting, "samples": 496, "forgotten": 4}
    assert after.fingerprint == before.fingerprint
    assert list(damage_of(open_storage(root), after.shards)) == []
    assert after.label_sum("clicked") == sum(_clicked(frame) for frame in staying)
    assert current(root, "2019-06-06").generation == 1
    assert not [name for name in GONE if f'"{name}"' in after.to_json().decode()]


def _has(frame: bytes, name: bytes) -> bool:
    return re.search(re.escape(name) + rb"(?![0-9])", frame) is not None


def _clicked(frame: bytes) -> int:
    from ctr_samples.codec import ExampleDecoder

    return int(ExampleDecoder(ExampleContract((CONTRACT["clicked"],))).decode(frame).column(0)[0].as_py())


def test_whoever_was_forgotten_is_not_looked_for_again(tmp_path: Path) -> None:
    root = tmp_path / "samples"
    publish_two_days(root)
    assert forget(root, tmp_path, "n7\n").exit_code == 0
    again = forget(root, tmp_path, "n7\n")
    assert (again.exit_code, again.stdout) == (0, "")
    assert "Forgot 0 sample(s) of 0 day(s)." in again.stderr
    assert current(root).generation == 2


def test_a_number_is_found_as_a_number(tmp_path: Path) -> None:
    root = tmp_path / "samples"
    publish_two_days(root)
    assert "Forgot 2 sample(s) of 2 day(s)" in forget(root, tmp_path, "7\n1007\n", key="impression_id").stderr


def test_the_metrics_and_the_page_are_those_of_the_samples_that_stay(tmp_path: Path) -> None:
    root = tmp_path / "samples"
    publish_two_days(root)
    forget(root, tmp_path, "\n".join(GONE))
    after = current(root)
    metrics = read_metrics(open_storage(root), after)
    assert (metrics.generation, metrics.samples) == (2, {"train": 397, "eval": 99})
    page = (root / f"dt=2019-06-05/data/{after.run_id}/report.html").read_text()
    assert "of users to be forgotten" in page


def test_no_rollback_brings_them_back(tmp_path: Path) -> None:
    root = tmp_path / "samples"
    publish_two_days(root)
    forget(root, tmp_path, "n7\nn8\n")
    with pytest.raises(UsageError, match=r"^Generation 1 of 2019-06-05 still has 2 sample\(s\) of users who are"):
        rollback(open_storage(root), DAY, 1, datetime.now(UTC), "0" * 8)


@pytest.mark.parametrize(
    ("key", "values", "said"),
    [
        (
            "user",
            "u1\n",
            "The samples have no column 'user'; they have number, vector, city, name, clicked, impression_id.",
        ),
        (
            "city",
            "1\n",
            "The column 'city' does not tell users apart: it is one of 4 numbers, which several users share.",
        ),
        ("vector", "1\n", "The column 'vector' does not tell users apart: it is a list of float32."),
        ("impression_id", "seven\n", "The column 'impression_id' has whole numbers, but --values has another line"),
        ("name", "\n", "values.txt has no line"),
    ],
)
def test_a_column_or_a_file_that_names_no_user_is_refused(tmp_path: Path, key: str, values: str, said: str) -> None:
    root = tmp_path / "samples"
    publish_two_days(root)
    done = forget(root, tmp_path, values, key)
    assert done.exit_code == 2
    assert said in re.sub(r"\s+", " ", done.stderr)
    assert json.loads((root / "dt=2019-06-05/manifests/00000001.json").read_text())["generation"] == 1
    assert current(root).generation == 1
