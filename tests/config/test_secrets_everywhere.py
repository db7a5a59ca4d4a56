"""Values of the environment at every place of a configuration: nothing that is said has a part of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from ctr_samples.config import LoadedConfig, explain, load_config
from ctr_samples.config.masking import mask, masked, masking, remember, tells, written
from ctr_samples.errors import CtrSamplesError, UsageError
from ctr_samples.telemetry.lineage import dataset_of

FULL = """
name: feed
timezone: UTC
grain: day
sources:
  log:
    {format: json, path: 'logs/{date}.json', schema: 't string, kind string, u string, i string', days_before: 7, days_after: 1}
  wide:
    {format: csv, path: 'w/{date}.csv', days_before: 1, header: true, delimiter: ',', schema: 'u string, city string, t string'}
  table: {format: table, table: shop.users, date_column: day}
  base: {format: jdbc, url: 'jdbc:derby:memory:x', table: prices, user: sa, password: '${P}', driver: some.Driver}
impressions: {source: log, where: kind = 'shown', time: t, user: u, article: i, columns: {upper: upper(u)}, dedup: 5m}
labels:
  clicked: {source: log, where: kind = 'click', window: 1h, reduce: any}
views:
  user: {source: wide, entity: user, key: u, event_time: t, ttl: 1d, where: city = 'x'}
  days: {source: table, entity: user, key: id, snapshot: day, ttl: unbounded}
  prices: {source: base, entity: article, key: id, static: true}
  counts: {source: log, entity: user, key: u, event_time: t, aggregates: {windows: [1d, 7d], counts: {n: 'true'}}}
histories:
  seen: {source: log, key: u, item: i, time: t, last: 5, within: 1d}
features:
  city: {from: user.city, dtype: int64, hash_buckets: 10, salt: x}
  n: {from: counts.n_7d, dtype: float32, default: 0, clip: [0, 5]}
  age: {from: days.age, dtype: float32, default: 0}
  price: {from: prices.price, dtype: float32, default: 0}
  seen: {expr: size(seen.items), dtype: int64, default: 0}
  length: {expr: length(impression.upper), dtype: int64, default: 0}
split: {by: user, eval: 0.2}
output: {path: out, partitions: 2, compression: none, shard_size: 1MB, ids: pseudonyms, ids_salt: '${SALT}'}
quality: {heavy_user: {key: user}}
"""
SECRETS = {
    "plain": "Hush-Hush-31415",
    "an address with a day": "s3://Hush-bucket/hush-hush/{date}/Hush.json",
    "an address of a database": "jdbc:derby://Hush:31415/hush;password=Hush-Hush",
    "a name": "Hush_Hush_31415",
    "a function": "Hush_Hush_31415(1)",
    "a type": "u HUSH_hush_31415",
    "long": "hush_" * 80,
    "quoted": 'it\'s "Hush"\\ hush',
    "of several lines": "Hush hush\nhush Hush",
    "of other letters": "Straße HÜSH hush",
}
"""All have `hush`, in whatever case, which stands in no other text."""


def leaves(node: Any, where: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all values of a document."""
    if isinstance(node, dict | list):
        for key, child in node.items() if isinstance(node, dict) else enumerate(node):
            yield from leaves(child, (*where, key))
    else:
        yield where


DOCUMENT = dict(YAML(typ="safe", pure=True).load(FULL))
PLACES = {".".join(map(str, where)): where for where in leaves(DOCUMENT)}


def put(where: tuple[Any, ...], value: object, tmp_path: Path) -> Path:
    """The configuration with another value at a place."""
    changed = deepcopy(DOCUMENT)
    node: Any = changed
    for part in where[:-1]:
        node = node[part]
    node[where[-1]] = value
    path = tmp_path / "feed.yaml"
    with path.open("w") as file:
        YAML(typ="safe", pure=True).dump(changed, file)
    return path


EVERY = list(product(("{}", "x{}y", "{0} or {0}", "lower('{}')", "impression.{}"), SECRETS.values()))


def load(path: Path, environ: dict[str, str]) -> tuple[LoadedConfig | None, str]:
    """The configuration, or what is wrong with it."""
    try:
        return load_config(path, environ=environ), ""
    except CtrSamplesError as error:
        return None, str(error)


def test_the_configuration_with_all_places_is_valid(tmp_path: Path) -> None:
    load_config(put(("name",), "feed", tmp_path), environ={"P": "hush", "SALT": "hush"})


def check_place(name: str, combinations: Iterable[tuple[str, str]], tmp_path: Path) -> None:
    """Load the configuration with each value in each text at one place, and look at all that it tells."""
    for around, secret in combinations:
        path = put(PLACES[name], around.format("${X}"), tmp_path)
        loaded, said = load(path, {"X": secret, "P": "Hush-of-p", "SALT": "Hush-of-salt"})
        assert "hush" not in said.lower()
        if loaded is not None:
            assert "hush" not in everything_told_of(loaded, secret).lower()


@pytest.mark.some(16)
@pytest.mark.parametrize("name", PLACES)
def test_no_place_of_a_file_tells_what_the_environment_filled_in(tmp_path: Path, name: str) -> None:
    first = [*PLACES].index(name)
    check_place(name, [EVERY[(first * 3 + n * 17) % len(EVERY)] for n in range(3)], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLACES)
def test_no_place_of_a_file_tells_any_value_in_any_text(tmp_path: Path, name: str) -> None:
    check_place(name, EVERY, tmp_path)


def everything_told_of(loaded: LoadedConfig, secret: str) -> str:
    """What is kept and told of a configuration without Spark."""
    told = [str(loaded.document), loaded.masked(explain(loaded.config, date(2019, 6, 5)))]
    with masking():
        remember(loaded.values)
        told += [text for source in loaded.config.sources.values() for text in dataset_of(source)]
    try:
        with loaded.masked_errors():
            raise UsageError(secret.upper())
    except UsageError as error:
        told.append(str(error))
    return " ".join(told)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("s3a://Hush-b/hush/{date}/x-*.json", "s3a://Hush-b/hush/2019-06-05/x-00.json"),
        ("s3a://Hush-b/hush/{date}", "s3a://hush-b/hush/2019-06-05/part-0"),
        ("s3a://Hush-b/hush/{date}/hush/", "s3://hush-b/hush/2019-06-05/hush"),
        ("/data/hush/{date}/{hour}/hush-log", "file:/data/hush/2019-06-05/07/hush-log/x.json"),
        ("/data//hush/../hush/log", "/data/hush/log"),
        ("{date}/hush-hush", "logs/2019-06-05/hush-hush"),
        ("Hush_Column", "hush_column#12, HUSH_COLUMN"),
        ("Hush\nhush", "Hush\\nhush"),
    ],
)
def test_a_value_is_masked_when_a_day_was_filled_in_or_its_case_was_changed(value: str, said: str) -> None:
    hidden = mask(f"there is no {said}; check", {"X": value})
    assert "hush" not in hidden.lower()
    assert hidden.startswith("there is no ")
    assert hidden.endswith("; check")


@pytest.mark.parametrize("value", ["{date}", "/{date}", "*", "s3/{date}", "", "{a,b}/*"])
def test_a_template_with_hardly_a_fixed_part_masks_no_other_text(value: str) -> None:
    assert mask("s3://bucket/2019-06-05 is empty", {"X": value}) == "s3://bucket/2019-06-05 is empty"


def test_a_text_knows_where_it_came_from_and_a_piece_of_a_value_is_noticed() -> None:
    with masking():
        remember({"X": "ab", "Y": "jdbc:postgresql://db/hush-hush"}, {"abc": "${X}c"})
        assert written("abc") == "${X}c"
        assert written("other") is None
        assert written("select ab") == "select ${X}"
        assert masked("AB, abc") == "${X}, abc"
        assert tells('database "SH-HUSH" is not there')
        assert not tells("org.postgresql.Driver is not there")
        with masking():
            assert written("abc") == "${X}c"
    remember({"X": "ab"})  # outside of a command
    assert written("abc") is None
    assert masked("ab") == "ab"
