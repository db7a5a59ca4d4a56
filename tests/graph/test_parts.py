"""What each part of a configuration reads of the others, and that all who ask get one answer."""

from __future__ import annotations

from typing import Any

import pytest

from ctr_samples.feature_rules import PAIRS
from ctr_samples.graph import Graph, log_names, meet

DOCUMENT: dict[str, Any] = {
    "sources": {"log": {}, "items": {}, "brands": {}, "clicks": {}},
    "impressions": {
        "source": "log",
        "where": "kind = 'shown'",
        "time": "at",
        "user": "param.uid",
        "keys": {"item": "iid"},
        "columns": {"place": "param.slot"},
    },
    "labels": {
        "clicked": {"source": "clicks", "where": "kind = 'click'", "time": "at", "window": "1h"},
        "bought": {"expr": "n > 0", "after": "clicked"},
    },
    "views": {
        "item": {"source": "items", "on": "item", "key": "id", "event_time": "at", "ttl": "1d"},
        "brand": {"source": "brands", "on": "item.Brand.id", "key": ["lower(name)"], "static": True},
        "sold": {
            "source": "clicks",
            "entity": "user",
            "key": "uid",
            "event_time": "at",
            "look_up": {"item": "iid"},
            "aggregates": {"windows": ["1h"], "counts": {"dear": "item.price > 5", "all": "true"}},
        },
    },
    "histories": {"recent": {"source": "clicks", "last": 5, "within": "1d", "columns": {"what": "kind"}}},
    "features": {
        "price": {"from": "item.price"},
        "gap": {"expr": "item.PRICE - brand.`mean price` - Impression.place"},
        "last": {"expr": "transform(recent.items, item -> item.x)"},
        "both": {"cross": ["price", "gap"]},
        "word": {"from": "brand.name", "vocabulary": "words"},
        "at_key": {"from": "item.tags", "at": "impression.user"},
        "whole": {"expr": "to_json(item)"},
        "unknown": {"expr": "${WHAT}"},
    },
    "vocabularies": {"words": {}},
    "sampling": {"rate": "if(clicked = 1 or bought__final = 0, 1, impression.place)", "cap": {"key": "user"}},
    "split": {"by": "user"},
}


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("impressions", {"sources.log": {"kind", "at", "param", "iid"}}),
        ("labels.clicked", {"sources.clicks": {"kind", "at"}, "impressions": set()}),
        ("labels.bought", {"sources.log": {"n"}, "impressions": set(), "labels.clicked": set()}),
        ("views.item", {"sources.items": {"id", "at"}, "impressions": {"item"}}),
        ("views.brand", {"sources.brands": {"name"}, "views.item": {"brand"}}),
        ("views.sold", {"sources.clicks": {*"uid at iid item true".split()}, "views.item": {"price"}, "impressions": {"user"}}),
        ("histories.recent", {"sources.clicks": {"kind"}, "impressions": {"user"}}),
        ("features.price", {"views.item": {"price"}}),
        ("features.gap", {"views.item": {"price"}, "views.brand": {"mean price"}, "impressions": {"place"}}),
        ("features.last", {"histories.recent": {"items"}}),
        ("features.both", {"features.price": set(), "features.gap": set()}),
        ("features.word", {"views.brand": {"name"}, "vocabularies.words": set()}),
        ("features.at_key", {"views.item": {"tags"}, "impressions": {"user"}}),
        ("features.whole", {"views.item": None}),
        ("features.unknown", dict.fromkeys(["impressions", "views.item", "views.brand", "views.sold", "histories.recent"])),
        ("sampling", {"labels.clicked": None, "labels.bought": None, "impressions": {"place", "user"}}),
        ("split", {"impressions": {"user"}}),
    ],
)  # fmt: skip
def test_a_part_reads_others_with_their_columns(part: str, expected: dict[str, set[str] | None]) -> None:
    assert Graph.of(DOCUMENT).reads[part] == expected


def test_a_key_that_is_not_written_is_the_default_one() -> None:
    graph = Graph.of({**DOCUMENT, "sampling": {"cap": {"samples": 3}}, "split": {"by": "impression"}})
    assert graph.reads["sampling"] == {"impressions": {"user"}}
    assert graph.reads["split"] == {}


def test_what_is_needed_includes_what_that_needs() -> None:
    graph = Graph.of(DOCUMENT)
    assert set(graph.needed("features.word")) == {
        *("features.word", "vocabularies.words", "views.brand", "views.item", "impressions"),
        *("sources.brands", "sources.items", "sources.log"),
    }
    assert graph.joined("both") == ("views.item", "views.brand")
    assert graph.features("views.item", "Price") == ["price", "gap", "whole", "unknown"]


SPELLINGS = {
    "item . price": True,
    "`item`.price": True,
    "item['price']": True,
    "item.PRICE": True,
    "get(transform(array(1), x -> item.price + x), 0)": True,
    "1 /* item.price */": False,
    "'item.price'": False,
    "get(transform(array(named_struct('price', 1)), item -> item.price), 0)": False,
    "named_struct('item', named_struct('price', 1)).item.price": False,
    "brand.item.price": False,
}
"""Expressions, and whether they read the price of the view `item`."""


@pytest.mark.parametrize("text", SPELLINGS)
def test_a_column_is_found_in_any_spelling_and_only_where_it_is_read(text: str) -> None:
    document = {**DOCUMENT, "features": {"made": {"expr": text}, "crossed": {"cross": ["made", "made"]}}}
    graph = Graph.of(document)
    assert graph.features("views.item", "price") == (["made"] if SPELLINGS[text] else [])
    assert ("views.item" in graph.joined("crossed")) == SPELLINGS[text]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("impression.user", {("param", "uid")}),
        ("concat(IMPRESSION . `User`, impression.item)", {("param", "uid"), ("iid",)}),
        ("case when impression.item is null then cast(1 as string) else impression.item end", {("iid",)}),
        ("item.brand.id", {("item", "brand", "id")}),
        ("impression.request", {("impression", "request")}),
        ("${X}", {()}),
    ],
)
def test_columns_of_impressions_are_followed_into_the_log(text: str, expected: set[tuple[str, ...]]) -> None:
    assert log_names(DOCUMENT, text) == expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (("param", "uid"), ("param", "uid"), True),
        (("param",), ("param", "uid"), True),
        (("param", "uid"), ("param", "iid"), False),
        ((), ("param", "uid"), True),
    ],
)
def test_names_meet_if_one_is_the_other_or_a_field_of_it(one: Any, other: Any, expected: bool) -> None:
    assert meet({one}, {other}) is meet({other}, {one}) is expected


@pytest.mark.parametrize("kind", PAIRS)
def test_a_feature_of_two_sources_reads_what_each_of_its_keys_names(kind: str) -> None:
    entry = {key: f"{key}_view.c" for key in PAIRS[kind]}
    views = {f"{key}_view": {"source": "log", "on": "user", "key": "u"} for key in PAIRS[kind]}
    graph = Graph.of({"sources": {"log": {}}, "views": views, "features": {"f": {kind: entry}}})
    assert {of: graph.columns("features.f", of) for of in graph.reads["features.f"]} == {
        f"views.{name}": frozenset({"c"}) for name in views
    }
