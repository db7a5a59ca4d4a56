"""Names below an output directory: what each looks like, and what is refused."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from ctr_samples.periods import WHOLE, Hour
from ctr_samples.shards import naming

DAY = date(2019, 6, 5)


def test_a_day_directory_reads_back_and_no_other_name_does() -> None:
    assert naming.day_directory(DAY) == "dt=2019-06-05"
    assert naming.day_of("dt=2019-06-05") == DAY
    assert [
        naming.day_of(name) for name in ("dt=2019-02-30", "dt=2019-06-05x", "2019-06-05", "dt=../x", "_SUCCESS", "")
    ] == [None] * 6


def test_hours_lie_below_their_day_and_the_whole_log_beside_none() -> None:
    hour, second = Hour(DAY, 7), Hour(date(2019, 10, 27), 2, again=True)
    assert naming.day_directory(hour) == "dt=2019-06-05/hour=07"
    assert naming.day_directory(second) == "dt=2019-10-27/hour=02b"
    assert naming.day_directory(WHOLE) == "all"
    assert [naming.day_of(naming.day_directory(one)) for one in (hour, second, WHOLE)] == [hour, second, WHOLE]
    assert naming.day_of("dt=2019-06-05/hour=24") is None
    names = ["data", "hour=10", "hour=02b", "hour=02", "hour=2", "_SUCCESS"]
    assert [str(found) for found in naming.hours_among(DAY, names)] == [
        "2019-06-05T02",
        "2019-06-05T02b",
        "2019-06-05T10",
    ]


def test_a_run_id_sorts_by_its_start_in_utc_whatever_the_zone() -> None:
    shanghai = timezone(timedelta(hours=8))
    assert naming.run_id(datetime(2019, 6, 6, 10, 0, 0, tzinfo=shanghai), "1a2b3c4d") == "20190606T020000-1a2b3c4d"
    earlier = naming.run_id(datetime(2019, 6, 6, 1, 59, 59, tzinfo=UTC), "ffffffff")
    assert earlier < "20190606T020000-00000000"


@pytest.mark.parametrize("token", ["1a2b3c4", "1A2B3C4D", "1a2b3c4d5", "../../..", "1a2b3c4d\n"])
def test_the_token_of_a_run_id_is_eight_hex_digits(token: str) -> None:
    with pytest.raises(ValueError, match="eight hex digits"):
        naming.run_id(datetime(2019, 6, 6, tzinfo=UTC), token)


@pytest.mark.parametrize(
    ("compression", "name"),
    [
        ("none", "part-00003-17-1a2b3c4d.tfrecord"),
        ("gzip", "part-00003-17-1a2b3c4d.tfrecord.gz"),
        ("zlib", "part-00003-17-1a2b3c4d.tfrecord.zlib"),
    ],
)
def test_a_shard_is_named_for_its_partition_attempt_and_compression(compression: str, name: str) -> None:
    assert naming.shard_name(3, 17, "1a2b3c4d", compression) == name


def test_a_run_and_its_manifest_stand_below_their_day() -> None:
    assert naming.run_directory(DAY, "20190606T020000-1a2b3c4d") == "dt=2019-06-05/data/20190606T020000-1a2b3c4d"
    assert naming.manifest_path(DAY, 12) == "dt=2019-06-05/manifests/00000012.json"


def test_generations_are_in_order_and_other_names_do_not_count() -> None:
    assert naming.generations_among(["00000009.json", "00000010.json", "00000002.json"]) == [2, 9, 10]
    others = [
        "00000002.json.tmp",
        ".00000003.json",
        "4.json",
        "100000000.json",
        "٠٠٠٠٠٠٠٥.json",
        "00000000.json",
        "notes",
    ]
    assert naming.generations_among(["00000001.json", *others]) == [1]
    assert naming.generations_among([]) == []
