"""What somebody with logs of another trade met at the first draft: requests of lists, times and amounts of other countries."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from ctr_samples.config import EventView, RowLabel
from ctr_samples.errors import UsageError
from ctr_samples.starter import Draft
from tests.starter.drafting import config_of, drafted, looked_at

HOUR = 3_600_000
START = 1_772_323_200_000  # 2026-03-01T00:00:00Z


def made(root: Path, files: dict[str, Sequence[str]], **said: str) -> Draft:
    for name, lines in files.items():
        (root / name).write_text("\n".join([*lines, ""]))
    return drafted(*(root / name for name in files), **said)


def recommended_and_played(lacking: int = 0) -> dict[str, list[str]]:
    """Lists of tracks that were recommended, of which some were played, half of them by nobody who is known."""
    lists, plays = [], []
    for n in range(120):
        tracks = [f"t{(n + k) % 30}" for k in range(4)]
        row = {"request": f"r{n}", "user": f"u{n % 40}" if n % 2 else None, "at": START + n * HOUR, "tracks": tracks}
        lists.append(row if n >= lacking else {**row, "tracks": [None, *tracks[1:]]})
        if n % 3 == 0:
            plays.append({"request": f"r{n}", "track": tracks[n % 4], "played": START + n * HOUR + 60_000})
    return {"lists.jsonl": [*map(json.dumps, lists)], "plays.jsonl": [*map(json.dumps, plays)]}


def test_lists_keep_the_request_by_which_actions_are_matched(tmp_path: Path) -> None:
    config = config_of(tmp_path, made(tmp_path, recommended_and_played()))
    assert config.impressions.request == "request"
    assert config.impressions.entities == {"user": "user", "article": "tracks"}
    label = config.labels["play"]
    assert not isinstance(label, RowLabel)
    assert (label.request, label.keys) == ("request", {"article": "track"})


def test_impressions_without_an_item_are_allowed_for(tmp_path: Path) -> None:
    config = config_of(tmp_path, made(tmp_path, recommended_and_played(lacking=6)))
    assert config.sources["lists"].bad_records.max_rate == pytest.approx(0.03)  # twice the 6 of 480 that lack one


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2026.03.07 18:%02d:27", "yyyy.M.d H:mm:ss"),
        ("2026.03.07 18:%02d", "yyyy.M.d H:mm"),
        ("2026년 03월 07일 18시 %02d분 27초", "yyyy년 M월 d일 H시 m분 s초"),
    ],
)
def test_times_of_other_countries_are_read(written: str, read: str, tmp_path: Path) -> None:
    lines = ["at,user_id,item_id,click", *[f"{written % (n % 60)},u{n % 9},i{n % 7},{n % 5 // 4}" for n in range(200)]]
    config = config_of(tmp_path, made(tmp_path, {"log.csv": lines}))
    assert config.impressions.time == f"try_to_timestamp(at, '{read}')"


def test_a_time_that_nobody_can_read_leaves_the_draft_incomplete(tmp_path: Path) -> None:
    rows = [f"18:{n % 60:02} Uhr 07.03.2026,u{n % 9},i{n % 7},{n % 5 // 4}" for n in range(99)]
    missing = made(tmp_path, {"log.csv": ["at,user_id,item_id,click", *rows]}).missing
    assert missing.startswith("at of log seems to say when, in a form that cannot be read")


def test_actions_that_nothing_ties_to_the_log_are_refused(tmp_path: Path) -> None:
    log = ["at,user_id,item_id", *[f"2026-03-07 18:{n % 60:02}:00,u{n % 9},i{n % 7}" for n in range(99)]]
    other = ["who,what", *[f"x{n},y{n}" for n in range(99)]]
    with pytest.raises(UsageError, match="`--actions other` has no time, or no column with values of log"):
        made(tmp_path, {"log.csv": log, "other.csv": other}, actions="other", log="log")


@pytest.mark.parametrize(
    ("price", "value"), [("21,5%02d원", 21_500), ("CHF 1’0%02d", 1000), ("1.0%02d,90 kr", 1000.9), ("¥%02d,000", 0)]
)
def test_amounts_of_other_countries_are_numbers(price: str, value: float, tmp_path: Path) -> None:
    lines = [json.dumps({"click": n % 2, "item_id": f"i{n % 7}", "price": price % (n % 50)}) for n in range(200)]
    (tmp_path / "log.jsonl").write_text("\n".join([*lines, ""]))
    (table,) = looked_at(tmp_path / "log.jsonl")
    column = table.find(lambda one: one.name == "price")
    assert column is not None
    assert column.kind == "DOUBLE"
    assert column.values[0] == value


def test_a_row_closes_no_sooner_than_the_row_behind_it_is_known(tmp_path: Path) -> None:
    log = ["at,user_id,item_id,click"]
    log += [f"2026-03-{1 + n % 7:02}T18:00:00Z,u{n % 9},i{n % 7},{n % 5 // 4}" for n in range(200)]
    offers = ["item_id,valid_from,valid_to,price"]
    offers += [f"i{n % 7},2026-03-0{1 + n // 7}T00:00:00Z,2026-03-0{2 + n // 7}T00:00:00Z,{n}" for n in range(49)]
    view = config_of(tmp_path, made(tmp_path, {"log.csv": log, "offers.csv": offers})).views["offers"]
    assert isinstance(view, EventView)
    assert (view.valid_to, view.closed_available) == ("valid_to", "timestamp(valid_to) + interval 1 day")
