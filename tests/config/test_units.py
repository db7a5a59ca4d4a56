"""Durations and sizes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ctr_samples.config.units import format_duration, format_size, parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("250ms", timedelta(milliseconds=250)),
        ("30s", timedelta(seconds=30)),
        ("30m", timedelta(minutes=30)),
        ("2h", timedelta(hours=2)),
        ("7d", timedelta(days=7)),
        ("0s", timedelta()),
    ],
)
def test_a_duration_reads_and_writes(text: str, expected: timedelta) -> None:
    assert parse_duration(text) == expected
    assert format_duration(expected) == text


def test_a_duration_has_at_most_a_hundred_years() -> None:
    assert parse_duration("36500d") == timedelta(days=36500)
    for text in ("36501d", "999999d", "876001h"):
        with pytest.raises(ValueError, match="expected a duration of at most 36500d"):
            parse_duration(text)


def test_a_duration_is_written_in_its_largest_whole_unit() -> None:
    assert [format_duration(timedelta(minutes=m)) for m in (60, 90, 1440)] == ["1h", "90m", "1d"]


@pytest.mark.parametrize("text", ["30", 30, "1.5h", "-1h", "1 h", "h", None, "1w"])
def test_what_is_no_duration_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="expected a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "expected"), [("128MiB", 2**27), ("1GB", 10**9), ("64KiB", 65536), ("100 MB", 10**8), (4096, 4096)]
)
def test_a_size_reads(text: object, expected: int) -> None:
    assert parse_size(text) == expected


@pytest.mark.parametrize("text", ["128", "MiB", "1.5GiB", True, None])
def test_what_is_no_size_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="expected a size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2**27, "128 MiB"), (5 * 2**40, "5 TiB")]
)
def test_a_size_is_written_for_people(size: int, text: str) -> None:
    assert format_size(size) == text
