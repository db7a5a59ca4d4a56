"""Keys of impressions, views, labels and histories: what fits together, and what is said where it does not."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from ctr_samples.config import JobConfig
from ctr_samples.config.references import check_references
from ctr_samples.quality.pseudonyms import pseudonyms_of
from tests.support.minimal_config import problem

BASE: dict[str, Any] = yaml.safe_load("""
name: t
timezone: UTC
sources:
  log: {format: parquet, path: log}
  clicks: {format: parquet, path: clicks}
  items: {format: parquet, path: items}
  sellers: {format: parquet, path: sellers}
impressions: {source: log, time: t, keys: {session: s, item: i, query: q}, request: r}
labels:
  clicked: {source: clicks, time: t, window: 1h, keys: {session: s, item: i}, match: [[session, item]]}
views:
  item: {source: items, "on": item, key: id, static: true}
  seller: {source: sellers, "on": item.seller, key: id, static: true}
features:
  rank: {from: seller.rank, dtype: float32}
output: {path: out}
""")


def document(**changed: Any) -> dict[str, Any]:
    """The configuration with some keys changed: ``views__seller__on="x"``; None removes a key."""
    whole = deepcopy(BASE)
    for path, value in changed.items():
        *parents, last = path.split("__")
        place = whole
        for part in parents:
            place = place.setdefault(part, {})
        if value is None:
            del place[last]
        else:
            place[last] = value
    return whole


def config(**changed: Any) -> JobConfig:
    return JobConfig.model_validate(document(**changed))


def test_views_may_be_joined_on_any_key_and_on_columns_of_other_views() -> None:
    for changed in ({}, {"views__seller__on": ["query", "item.seller"], "views__seller__key": ["q", "id"]}):
        assert list(check_references(config(**changed))) == []


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"views__item__on": "itm"}, "views.item.on: impressions have no key 'itm'; did you mean 'item'?"),
        ({"views__seller__on": "itm.seller"}, "views.seller.on: there is no view 'itm'; did you mean 'item'?"),
        (
            {"views__item__on": "seller.item"},
            "views.item.on: the views wait for each other's keys (item -> seller -> item); remove one of these `on`.",
        ),
        ({"views__item__on": "item.parent"}, "views.item.on: the views wait for each other's keys (item -> item);"),
        (
            {"views__seller__on": "item.matched"},
            "views.seller.on: 'item.matched' is no key; expected a column of the source of 'item'.",
        ),
        (
            {"split": {"by": "x"}},
            "split.by: samples cannot be split by x: impressions have no such key; expected one of impression, item, query, "
            "request, session, time.",
        ),
        (
            {"quality": {"heavy_user": {"key": "x"}}},
            "quality.heavy_user.key: impressions have no key 'x'; expected one of item, query, session.",
        ),
        (
            {"labels__clicked__match": [["x", "item"]]},
            "labels.clicked.match: impressions have no key 'x'; expected one of item, query, request, session.",
        ),
        (
            {"labels__clicked__match": [["query", "item"]]},
            "labels.clicked: needs `keys.query`, which `match` names, since its source is not that of `impressions`.",
        ),
        (
            {"labels__clicked__keys": {"sesion": "s", "item": "i"}, "labels__clicked__match": None},
            "labels.clicked.keys.sesion: impressions have no key 'sesion'; did you mean 'session'?",
        ),
        (
            {"labels__clicked__keys": {"session": "s"}, "labels__clicked__match": None},
            "labels.clicked: needs `keys.item`, since its source is not that of `impressions`.",
        ),
        (
            {"histories": {"seen": {"source": "log", "on": "sesion", "last": 3, "within": "1h"}}},
            "histories.seen.on: impressions have no key 'sesion'; did you mean 'session'?",
        ),
        (
            {"impressions__keys__position": "p"},
            "impressions.keys.position: 'position' is a name that every impression has; rename the key.",
        ),
        (
            {"impressions__keys__request": "r"},
            "impressions.keys.request: 'request' is a name that every impression has; give it as `impressions.request`.",
        ),
        ({"views__item__entity": "article"}, "needs `on`, the key that it is joined on, or `entity`"),
        ({"views__item__on": None}, "needs `on`, the key that it is joined on, or `entity`"),
        ({"views__item__key": ["a", "b"]}, "found 2 `key` for 1 of `on`; expected one expression for each of [item]"),
        ({"impressions__user": "u", "impressions__keys__user": "u"}, "found both `user` and `keys.user`"),
        ({"impressions__shown": "ad"}, "`shown: ad` is none of the keys; expected one of session, item, query"),
        ({"impressions__keys": {"item": "i"}, "impressions__request": None}, "with `identity: row` each row is one"),
        ({"labels__clicked__expr": "clicked"}, "`expr` is for labels of the row and `source` is for labels of actions"),
        ({"labels__clicked": {"expr": "c", "window": "1h"}}, "say with `known_after`"),
        ({"labels__clicked": {"window": "1h"}}, "labels.clicked: the key `source` is missing"),
    ],
)
def test_keys_that_do_not_fit_or_contradict_each_other_are_refused(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    assert message in problem(tmp_path, yaml.safe_dump(document(**changed), sort_keys=False))


@pytest.mark.parametrize(
    ("impressions", "label", "tried"),
    [
        ({"user": "u", "article": "a"}, {}, (("user", "article"),)),
        ({"user": "u", "article": "a", "request": "r"}, {}, (("request", "article"), ("user", "article"))),
        ({"keys": {"session": "s", "item": "i", "query": "q"}}, {}, (("session", "query", "item"),)),
        ({"keys": {"session": "s", "query": "q"}}, {}, (("session", "query"),)),
        ({"user": "u", "article": "a"}, {"match": ["user"]}, (("user",),)),
    ],
)
def test_what_was_shown_and_the_request_or_the_user_find_an_impression(
    impressions: dict[str, Any], label: dict[str, Any], tried: tuple[tuple[str, ...], ...]
) -> None:
    shown, clicked = {"source": "log", "time": "t", **impressions}, {"source": "log", "window": "1h", **label}
    loaded = config(impressions=shown, views={}, labels={"clicked": clicked})
    assert loaded.labels["clicked"].matches(loaded.impressions) == tried  # type: ignore[union-attr]


def test_all_keys_but_what_was_shown_have_pseudonyms() -> None:
    names = pseudonyms_of(config())
    assert names is not None
    orphans = [{"time": "2019-06-05T10:00:00+00:00", "session": "s1", "item": "i1", "request": None}]
    (orphan,) = names.in_labels({"clicked": {"orphan_sample": orphans}})["clicked"]["orphan_sample"]
    assert orphan == {**orphans[0], "session": names.of("s1")}


def test_a_short_form_and_its_long_form_are_one_thing() -> None:
    short = {"source": "items", "entity": "user_article", "key": "u", "article_key": "a", "static": True}
    long = {"source": "items", "on": ["user", "article"], "key": ["u", "a"], "static": True}
    both = [
        config(impressions={"source": "log", "time": "t", "user": "u", "article": "a"}, views={"pair": view})
        for view in (short, long)
    ]
    assert [view.views["pair"].joined_on for view in both] == [("user", "article")] * 2
    assert [view.views["pair"].keys for view in both] == [("u", "a")] * 2


def test_a_list_of_articles_may_be_named_either_way() -> None:
    for shown in ({"user": "u", "article": "a"}, {"keys": {"user": "u", "article": "a"}}):
        loaded = config(impressions={"source": "log", "time": "t", "explode": "article", **shown}, views__item=None)
        assert loaded.impressions.entities == {"user": "u", "article": "a"}
