"""Names in SQL expressions: what is found, and that it is never less than what Spark's own parser finds."""

from __future__ import annotations

import ast
import json
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import ParseException
from pyspark.sql import SparkSession

from ctr_samples.graph import dotted, names_in
from tests.support.project import PROJECT


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("price", [("price",)]),
        ("item . price", [("item", "price")]),
        ("item /* of */ . -- the\n price", [("item", "price")]),
        ("`item`.price + item.`Price (EUR)`", [("item", "price"), ("item", "Price (EUR)")]),
        ("`a``b`.`c.d`", [("a`b", "c.d")]),
        ("item.PRICE", [("item", "PRICE")]),
        ("item['price'] + item[0]", [("item",), ("item",)]),
        ("to_json(item)", [("item",)]),
        ("struct(item.*)", [("item",)]),
        ("element_at(recent.items, 1).price", [("recent", "items")]),
        ("recent.items[0].price", [("recent", "items")]),
        ("item.select + item.`end`", [("item", "select"), ("item", "end")]),
        ("item.1b", [("item", "1b")]),
        ("größe.länge", [("größe", "länge")]),
        # no names
        ("'item.price' || \"item.price\" || 'it''s item.price' || 'it\\'s item.price'", []),
        ("r'\\' || item.price", [("item", "price")]),
        ("1.5e3 + .5 + 2L + 1e-3BD", [("1e",)]),
        ("/* item.price /* nested */ item.price */ 1 -- item.price", []),
        ("try_cast(price as decimal(10, 2))::string", [("price",), ("as",)]),
        ("item.payload:price.item[0]::int", [("item", "payload")]),
        # lambdas
        ("transform(recent.items, item -> item.price + user.age)", [("recent", "items"), ("user", "age")]),
        ("aggregate(a.b, 0, (sum, ITEM) -> sum + Item.price, sum -> sum * item.n)", [("a", "b"), ("item", "n")]),
        ("map_filter(m, (k, v) -> v > k) and v.x", [("m",), ("and",), ("v", "x")]),
        ("filter(x, x -> exists(x.y, y -> y.a = x.b and z.c)), y.d", [("x",), ("and",), ("z", "c"), ("y", "d")]),
        # what cannot be read reads everything
        ("item.price + ${X}", None),
        ("`${X}`", None),
        ("'${X}' || item.price", [("item", "price")]),
        ("'item.price", None),
        ("`item", None),
        ("/* item.price", None),
        ("*", None),
        ("struct(*, 1)", None),
        ("2 * item.price", [("item", "price")]),
        ("identifier('item' || '.price')", None),
        ("", []),
    ],
)
def test_the_names_that_may_be_columns_are_found(text: str, expected: list[tuple[str, ...]] | None) -> None:
    assert names_in(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("item.price", ("item", "price")),
        ("user.`age:token`", ("user", "age:token")),
        ("item", ("item",)),
        ("item.price + 1", None),
        ("lower(item.name)", None),
        ("item.", None),
        ("'item.price'", None),
    ],
)
def test_a_text_is_one_dotted_name_or_not(text: str, expected: tuple[str, ...] | None) -> None:
    assert dotted(text) == expected


# Against Spark


def folded(paths: Iterable[Sequence[str]]) -> set[tuple[str, ...]]:
    """Paths in lower case, and split where their parts hold what separates parts in a tree that Spark tells."""
    return {tuple(", ".join(path).lower().split(", ")) for path in paths}


Tree = tuple[str, tuple[str, ...], list["Tree"]]
"""The class of a node, its name and its children."""


def tree_of(nodes: Iterator[dict[str, Any]]) -> Tree:
    """The tree of nodes of which each comes before its children."""
    node = next(nodes)
    name = tuple(node.get("nameParts", "")[1:-1].split(", "))
    return node["class"].rpartition(".")[2], name, [tree_of(nodes) for _ in range(node["num-children"])]


def names_by_spark(tree: Tree, parameters: frozenset[str] = frozenset()) -> Iterator[tuple[str, ...]]:
    """The names in a tree of Spark's parser, without parameters of lambdas."""
    kind, name, children = tree
    if kind == "LambdaFunction":
        parameters |= {argument[0].lower() for _, argument, _ in children[1:]}
    if kind in ("UnresolvedAttribute", "UnresolvedNamedLambdaVariable") and name[0].lower() not in parameters:
        yield name
    for child in children:
        yield from names_by_spark(child, parameters)


def both(spark: SparkSession, texts: Iterable[str]) -> Iterator[tuple[str, set[tuple[str, ...]], set[tuple[str, ...]]]]:
    """Each text that Spark parses and the scanner does not give up, with the names that each of them finds."""
    parser = spark._jsparkSession.sessionState().sqlParser()  # type: ignore[attr-defined]
    for text in texts:
        try:
            tree = parser.parseExpression(text)
        except (ParseException, Py4JJavaError):
            continue
        found = names_in(text)
        if found is not None:
            yield text, folded(found), folded(names_by_spark(tree_of(iter(json.loads(tree.toJSON())))))


def missed(found: set[tuple[str, ...]], by_spark: set[tuple[str, ...]]) -> set[tuple[str, ...]]:
    """The names of Spark that were not found, nor what they are fields of."""
    return {path for path in by_spark if not any(path[: len(one)] == one for one in found)}


def texts_of_the_project() -> list[str]:
    """All text of tests and code, and all that stands between backticks or behind a key in documents and configurations."""
    found = set()
    for file in [*PROJECT.glob("tests/**/*.py"), *PROJECT.glob("ctr_samples/**/*.py")]:
        constants = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Constant)]
        found |= {node.value for node in constants if isinstance(node.value, str) and len(node.value) < 400}
    for file in [*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md"), *PROJECT.glob("conf/*.yaml")]:
        for line in file.read_text().splitlines():
            found |= set(re.findall(r"`([^`]+)`", line))
            found |= {value.strip("\"' ") for value in re.findall(r"\w: +(.+?)(?:[,}] |$)", line)}
    return sorted(
        text for text in found if not any("\ud800" <= one <= "\udfff" for one in text)
    )  # they break the gateway


@pytest.mark.slow
def test_in_all_texts_of_the_project_no_name_that_spark_finds_is_missed(spark: SparkSession) -> None:
    parsed = list(both(spark, texts_of_the_project()))
    assert [(text, missed(found, by_spark)) for text, found, by_spark in parsed if missed(found, by_spark)] == []
    assert len(parsed) > 5_000


NAMES = [
    "item",
    "Item",
    "`item`",
    "recent",
    "user",
    "x",
    "select",
    "`a.b`",
    "`a``b`",
    "größe",
    "_1",
    "end",
    "value",
    "1b",
]
BLANKS = ["", "", "", " ", "\n", "/* item.price */", " -- user.age\n"]
WORDS = {
    "and", "as", "between", "bigint", "by", "case", "date", "day", "distinct", "double", "else", "end", "in", "int", "interval",
    "is", "like", "map", "not", "null", "or", "string", "then", "timestamp", "true", "when",
}  # fmt: skip
"""Words of SQL, and types: what the scanner finds beside the names."""


class Expressions:
    """Writes expressions by chance."""

    def __init__(self, seed: int) -> None:
        self.one_of = random.Random(seed).choice
        self.depth = 0

    def name(self) -> str:
        parts = [self.one_of(NAMES) for _ in range(self.one_of([1, 2, 2, 2, 3]))]
        return f"{self.one_of(BLANKS)}.{self.one_of(BLANKS)}".join(
            ["item" if parts[0] in ("1b", "select") else parts[0], *parts[1:]]
        )

    def text(self) -> str:
        """An expression."""
        self.depth += 1
        leaf = self.depth > 5
        kinds = (self.name, self.literal) if leaf else (
            self.name, self.literal, self.call, self.sum, self.case, self.brackets, self.lambdas, self.cast, self.path
        )  # fmt: skip
        made = self.one_of(kinds)()
        self.depth -= 1
        return f"{self.one_of(BLANKS)}{made}{self.one_of(BLANKS)}"

    def literal(self) -> str:
        return self.one_of(
            [
                "1",
                "1.5",
                "2L",
                "'item.price'",
                '"user.age"',
                "'it\\'s item.x'",
                "r'\\'",
                "date '2020-01-01'",
                "null",
                "'-- x'",
            ]
        )

    def call(self) -> str:
        return f"{self.one_of(['to_json', 'coalesce', 'get', 'lower'])}({self.text()}, {self.text()})"

    def sum(self) -> str:
        return f"({self.text()} {self.one_of(['+', '*', 'and', '=', '||', 'like'])} {self.text()})"

    def case(self) -> str:
        return f"case when {self.text()} then {self.text()} else {self.text()} end"

    def brackets(self) -> str:
        return f"({self.text()})[{self.text()}].{self.one_of(NAMES[:8])}"

    def lambdas(self) -> str:
        one = self.one_of(["x", "item", "`item`", "(x, item)", "(user, X)"])
        return (
            f"{self.one_of(['transform', 'aggregate', 'exists'])}({self.text()}, {one} -> {self.text()}, {self.text()})"
        )

    def cast(self) -> str:
        return f"cast({self.text()} as {self.one_of(['int', 'string', 'map<string, int>'])})::bigint"

    def path(self) -> str:
        return f"{self.name()}:{self.one_of(['a', 'item.price', 'x[0].item'])}"


@pytest.mark.thorough
def test_in_expressions_by_chance_no_name_that_spark_finds_is_missed_and_others_are_words_of_sql(
    spark: SparkSession,
) -> None:
    expressions = Expressions(7)
    parsed = list(both(spark, [expressions.text() for _ in range(800)]))
    assert len(parsed) > 300
    assert [(text, missed(found, by_spark)) for text, found, by_spark in parsed if missed(found, by_spark)] == []
    more = {text: found - by_spark for text, found, by_spark in parsed}
    assert {text: names for text, names in more.items() if any(one[0] not in WORDS for one in names)} == {}


def test_three_hundred_brackets_are_read() -> None:
    assert names_in("(" * 300 + "item.price" + ")" * 300) == [("item", "price")]
