"""Files below local directories: each real one once, whatever links lead to it, and what is passed over is told."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from ctr_samples.errors import InputError
from ctr_samples.job.planning import read_inputs
from ctr_samples.samples.inputs.listing import RealFiles, SourceFrame, _list_files, find_files, real_files
from ctr_samples.samples.inputs.sources import read_source
from tests.samples.inputs.reading import DAY, directory, lines, rows_of, source_of, write
from tests.support.minimal_config import minimal
from tests.support.whole_runs import Told


@pytest.fixture
def day(tmp_path: Path) -> Path:
    """A day of two files, one of them below another directory; beside it is a directory of others."""
    path = tmp_path.resolve() / "log/dt=2019-06-05"
    write(path / "a", 1)
    write(path / "b/c", 2)
    write(path.parent.parent / "bulk/d", 3)
    return path


def link(path: Path, target: Path | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def names(found: RealFiles, root: Path) -> list[str]:
    """The files, relative to the root."""
    return sorted(str(Path(name).relative_to(root)) for name in found.names.values())


def told(found: RealFiles) -> str:
    return " ".join(found.sentences("the day"))


SHOWN = ["a.json", "b/c.json", "key=1/_x=2/d.json", "ü 100%25 {e}[f]*.json", "_shown=1"]
HIDDEN = ["_SUCCESS", ".a.crc", "a._COPYING_", "_metadata", "_temporary/0/f.json", ".h/g.json", "empty.json"]


def test_local_files_are_those_that_spark_lists_with_their_sizes_and_times(spark: SparkSession, tmp_path: Path) -> None:
    for number, name in enumerate([*SHOWN, *HIDDEN]):
        write(tmp_path / "day" / name, 10**number)
        os.utime(tmp_path / "day" / name, ns=(0, 1_559_700_000_123_999_999 + number))
    (tmp_path / "day/empty.json").write_text("")
    for path, shown in {
        "day": SHOWN,
        "day/*": [*SHOWN, "_temporary/0/f.json", ".h/g.json"],  # a directory that is named is read, a file is not
        "day/{_SUCCESS,a.json}": ["a.json"],
    }.items():
        place = f"{tmp_path}/{path}"
        (listing,) = find_files(spark, "here", [place]).values()
        assert sorted(file.path for file in listing.files) == sorted(f"file:{tmp_path}/day/{name}" for name in shown)
        assert set(listing.files) == set(_list_files(spark, "here", [place]))


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("loop", "."),
        ("loop", "/"),
        ("b/loop", "../b"),
        ("A", "a"),
        ("0", "b"),
        ("b/hour=07", "../b"),
    ],
)
def test_a_link_to_what_is_read_already_or_to_a_directory_above_is_left_out_and_told(
    day: Path, name: str, target: str
) -> None:
    link(day / name, target)
    found = real_files([str(day)])
    assert names(found, day) == ["a", "b/c"]
    assert told(found) == (
        "symbolic links below the day lead to what is read already, or to a directory above, and are left out: "
        f"{day}/{name}."
    )


def test_links_to_files_and_directories_elsewhere_are_followed_once_each_and_told(day: Path) -> None:
    bulk = day.parent.parent / "bulk"
    link(day / "x", bulk)
    link(day / "y", bulk)
    link(day / "z", bulk / "d")
    link(bulk / "back", day)
    link(bulk / "deep", bulk)
    found = real_files([str(day)])
    assert names(found, day) == ["a", "b/c", "x/d"]
    assert f"symbolic links below the day are followed: {day}/x to {bulk}." in told(found)
    assert f"are left out: {day}/y and 3 more." in told(found)


def test_many_loops_in_each_others_directories_end(day: Path) -> None:
    for first in range(8):
        for second in range(8):
            link(day / f"{first}/{second}", f"../{second}")
    found = real_files([str(day)])
    assert names(found, day) == ["a", "b/c"]
    assert told(found).endswith(f"{day}/0/0 and 63 more.")


@pytest.mark.parametrize("target", ["nowhere", "self", "a/b", "/nowhere/at/all"])
def test_a_link_that_leads_nowhere_is_told(day: Path, target: str) -> None:
    link(day / "self", target)
    found = real_files([str(day)])
    assert names(found, day) == ["a", "b/c"]
    assert told(found) == f"symbolic links below the day lead nowhere and are left out: {day}/self."


def test_what_is_no_file_is_left_out_and_told_also_behind_a_link(day: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(day / "pipe")
    link(day / "device", "/dev/null")
    monkeypatch.chdir(day)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("socket")  # a path may have 108 bytes
    found = real_files([str(day)])
    assert names(found, day) == ["a", "b/c"]
    assert told(found) == f"FIFOs, sockets or devices below the day are left out: {day}/pipe and 2 more."


def test_hidden_names_are_passed_over_in_silence_and_a_hard_link_is_a_file_of_its_own(day: Path) -> None:
    for name in ("_SUCCESS", ".a", "_tmp/x", "a._COPYING_"):
        link(day / name, "..")
    write(day / "_hour=1/x", 4)
    (day / "hard").hardlink_to(day / "a")
    found = real_files([str(day)])
    assert (names(found, day), told(found)) == (["_hour=1/x", "a", "b/c", "hard"], "")


def test_of_a_directory_and_a_link_to_it_the_directory_is_read_and_the_link_alone_is_nothing_to_tell(day: Path) -> None:
    other = day.with_name("aaa")
    link(other, day)
    both, alone = real_files([str(other), str(day)]), real_files([str(other)])
    assert (names(both, day), names(alone, other)) == (["a", "b/c"], ["a", "b/c"])
    assert told(both).endswith(f"left out: {other}.")
    assert told(alone) == ""


# What Spark reads


def read(spark: SparkSession, path: str, **more: object) -> SourceFrame:
    found = read_source(spark, "log", source_of(path, **{"schema": "a INT, hour INT", **more}), DAY)
    assert found.files is not None
    assert len(found.files) == len(set(found.files))
    return found


AWKWARD = ["ä ö", "50%25 off", "a#b?c+d", "[x]{y,z}", "back`tick", "back\\slash", "star*"]


@pytest.mark.thorough
def test_rows_behind_links_are_read_once_in_every_form_and_what_is_left_out_is_told(
    spark: SparkSession, day: Path, tmp_path: Path
) -> None:
    link(day / "loop", ".")
    os.mkfifo(day / "pipe")
    looped = read(spark, f"{day.parent}/dt={{date}}")
    assert looped.snapshot["files"] == 2
    assert list(looped.told) == [
        f"sources.log: FIFOs, sockets or devices below {day} are left out: {day}/pipe.",
        f"sources.log: symbolic links below {day} lead to what is read already, or to a directory above, and are left out: "
        f"{day}/loop.",
    ]
    awkward = tmp_path / "awkward/dt=2019-06-05"
    for number, name in enumerate(AWKWARD):
        write(awkward / name, 10 + number)
    link(awkward / "loop", ".")
    link(awkward.with_name("dt=2019-06-05-copy"), awkward)
    globbed = read(spark, f"{awkward.parent}/dt={{date}}*")
    assert len(globbed.told) == 1
    root = tmp_path / "hours"
    write(root / "dt=2019-06-04/hour=7/x", 1)
    write(root / "dt=2019-06-05/hour=8/x", 2)
    write(tmp_path / "late/x", 3)
    link(root / "dt=2019-06-05/hour=9", tmp_path / "late")
    link(root / "dt=2019-06-05/hour=8/again", "../hour=9")
    hours = read(spark, f"{root}/dt={{date}}", days_before=1)
    assert hours.by_day is not None
    parquet = directory(tmp_path / "parquet/dt=2019-06-05")
    pq.write_table(pa.table({"a": [1]}), parquet / "x.parquet")
    os.mkfifo(parquet / "part.parquet")
    link(parquet / "loop", ".")
    columnar = read(spark, f"{parquet.parent}/dt={{date}}", format="parquet", schema=None)
    assert len(columnar.told) == 2
    csv = tmp_path / "csv/dt=2019-06-05"
    lines(csv / "x.csv", "a,hour", "1,2")
    link(csv / "loop", ".")
    frames = {
        "a loop": (looped.frame, ["a"]),
        "awkward names, and a glob that matches their directory and a link to it": (globbed.frame, ["a"]),
        "hours of days": (hours.frame, ["a", "hour", "dt"]),
        "hours of one day": (hours.by_day.only([DAY]).frame, ["a"]),
        "Parquet": (columnar.frame, ["a"]),
        "CSV": (read(spark, f"{csv.parent}/dt={{date}}", format="csv", header=True).frame, ["a"]),
    }
    assert [sorted(rows) for rows in rows_of(frames).values()] == [
        [(1,), (2,)],
        [(10 + number,) for number in range(len(AWKWARD))],
        [(1, 7, "2019-06-04"), (2, 8, "2019-06-05"), (3, 9, "2019-06-05")],
        [(2,), (3,)],
        [(1,)],
        [(1,)],
    ]


@pytest.mark.parametrize("shape", ["day", "file", "directory"])
def test_a_file_that_links_put_into_two_days_is_refused(spark: SparkSession, day: Path, shape: str) -> None:
    before = day.with_name("dt=2019-06-04")
    if shape == "day":
        link(before, day)
    else:
        write(before / "own", 4)
        link(before / "x", day / ("a" if shape == "file" else "b"))
    with pytest.raises(InputError, match=r"^sources.log: .* are the same file by a symbolic link; .*copy the file"):
        read(spark, f"{day.parent}/dt={{date}}", days_before=1)


def test_a_run_warns_of_links_and_fifos(spark: SparkSession, day: Path) -> None:
    link(day / "loop", ".")
    os.mkfifo(day / "pipe")
    config = minimal(
        sources={"log": {"format": "json", "path": f"{day.parent}/dt={{date}}", "schema": "a INT, at TIMESTAMP"}},
        impressions={"source": "log", "time": "at", "identity": "row", "keys": {"article": "a"}},
        labels={"clicked": {"expr": "a = 1"}},
    )
    reporter = Told()
    read_inputs(spark, config, DAY, reporter, watched=False)
    assert [text.partition(": ")[2].split(" below")[0] for text in reporter.warnings] == [
        "FIFOs, sockets or devices",
        "symbolic links",
    ]
