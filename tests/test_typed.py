"""JSON values as dataclasses: what does not have the declared type is refused with its place."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Required, TypedDict

import pytest

from ctr_samples.typed import Count, Finite, Like, Mistyped, Such, Within, typed


class Known(TypedDict, total=False):
    name: Required[str]
    size: int


@dataclass(frozen=True)
class Leaf:
    kind: Literal["a", "b"]
    many: tuple[int, ...] = ()


@dataclass(frozen=True)
class Tree:
    count: Count
    ratio: Annotated[float, Within(0, 1)] = 0.5
    pair: tuple[float, float] | None = None
    either: int | float | str | None = None
    leaf: Leaf | None = None
    sums: Mapping[str, Finite] = field(default_factory=dict)
    known: Annotated[Mapping[str, Any], Like(Known)] | None = None
    anything: Any = None
    even: Annotated[int, Such(lambda n: n % 2 == 0, "an even number")] = 0


DEEP: Any = 1
for _ in range(100):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"count": 1}, Tree(1)),
        ({"count": 1, "ratio": 1, "pair": [1, 2.5]}, Tree(1, 1, (1, 2.5))),
        ({"count": 2**63 - 1, "leaf": {"kind": "b", "many": [1, 2]}}, Tree(2**63 - 1, leaf=Leaf("b", (1, 2)))),
        ({"count": 0, "either": "x", "even": 4}, Tree(0, either="x", even=4)),
        ({"count": 0, "known": {"name": "n", "more": [1]}}, Tree(0, known={"name": "n", "more": [1]})),
        (
            {"count": 0, "sums": {"x": -0.5}, "anything": {"a": [None]}},
            Tree(0, sums={"x": -0.5}, anything={"a": [None]}),
        ),
    ],
)
def test_what_has_the_declared_types_is_read(value: Any, expected: Tree) -> None:
    assert typed(Tree, value) == expected


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"count": True}, "count is True, expected a whole number of 64 bits"),
        ({"count": 1.0}, "count is 1.0, expected a whole number of 64 bits"),
        ({"count": -1}, "count is -1, expected a number from 0 to 9,223,372,036,854,775,807"),
        ({"count": 2**63}, "count is 9223372036854775808, expected a whole number of 64 bits"),
        ({"ratio": "1"}, "ratio is '1', expected a number"),
        ({"ratio": math.nan}, "ratio is nan, expected a number from 0 to 1"),
        ({"ratio": 10**400}, "expected a number"),
        ({"pair": [1]}, "pair is a list of 1, expected a list of 2"),
        ({"pair": [1, "x"]}, "pair[1] is 'x', expected a number"),
        ({"either": []}, "either is a list of 0, expected text"),
        ({"leaf": {"kind": "c"}}, "leaf.kind is 'c', expected 'a' or 'b'"),
        ({"leaf": {}}, "leaf has no 'kind'"),
        ({"leaf": {"kind": "a", "many": 7}}, "leaf.many is 7, expected a list"),
        ({"leaf": {"kind": "a", "x": 7}}, "leaf has the unknown key 'x'"),
        ({"sums": {"x": math.inf}}, "sums.x is inf, expected a number from"),
        ({"sums": []}, "sums is a list of 0, expected an object"),
        ({"known": {"size": 1}}, "known has no 'name'"),
        ({"known": {"name": "n", "size": "x"}}, "known.size is 'x', expected a whole number"),
        ({"anything": DEEP}, "anything is nested more than 50 levels deep"),
        ({"even": 3}, "even is 3, expected an even number"),
    ],
)
def test_what_has_another_type_is_refused_with_its_place(more: dict[str, Any], said: str) -> None:
    with pytest.raises(Mistyped) as caught:
        typed(Tree, {"count": 1, **more})
    assert said in str(caught.value)


def test_what_is_no_object_at_all_is_refused() -> None:
    with pytest.raises(Mistyped, match="it is a list of 0, expected an object"):
        typed(Tree, [])
