"""Text that is equal for all elements of a list or map, taken out of the lambda that Spark evaluates for each of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

_LAMBDA = "LambdaFunction"
_NAMES = ("UnresolvedAttribute", "UnresolvedNamedLambdaVariable")
_OF_ONE = frozenset({"lcase", "lower", "string", "ucase", "upper"})
_OF_SEVERAL = frozenset({"concat", "concat_ws"})
"""Functions that return text and never fail, so that they may be evaluated where a list is empty."""


@dataclass(frozen=True, slots=True)
class _Node:
    """A node of a parsed expression. ``name`` is the function that it calls, or the first part of a column."""

    kind: str
    name: str
    is_text: bool
    """Whether it is a text literal or a cast to text."""
    start: int
    end: int
    children: Sequence[Self]

    @classmethod
    def of(cls, node: Any) -> Self:
        kind, name, is_text = node.getClass().getSimpleName(), "", False
        if kind in _NAMES or kind == "UnresolvedFunction":
            name = node.nameParts().apply(0).lower()
        elif kind in ("Cast", "Literal"):
            is_text = node.dataType().typeName() == "string"
        below = node.children()
        children = [cls.of(below.apply(place)) for place in range(below.size())]
        start, end = node.origin().startIndex(), node.origin().stopIndex()
        known = start.isDefined() and end.isDefined()
        return cls(kind, name, is_text, start.get() if known else -1, end.get() + 1 if known else -1, children)

    def nodes(self) -> Iterator[Self]:
        """Yield the node and all below it."""
        yield self
        for child in self.children:
            yield from child.nodes()

    @property
    def is_made_text(self) -> bool:
        """Whether it is text that is made of columns and literals, without a chance to fail."""
        if self.kind == "Cast":
            return self.is_text and self.children[0].kind in _NAMES
        if self.kind != "Concat" and self.name not in _OF_ONE | _OF_SEVERAL:
            return False
        texts = [child for child in self.children if child.is_text or child.is_made_text]
        # Text among several parts tells that lists are not put together, which may fail.
        known = bool(texts) or self.name in _OF_ONE
        return known and all(child in texts or child.kind in (*_NAMES, "Literal") for child in self.children)


def taken_out(root: Any, text: str) -> str:
    """Return a parsed expression as text that evaluates made text once for each row. Its values are the same.

    Spark has no way to name a value inside an expression, but a lambda has: ``transform(array(value), name -> ...)[0]``.
    """
    if "->" not in text:
        return text
    name = "_outside"
    while name in text:
        name += "_"
    pieces, done = [], 0
    for function in _outermost(_Node.of(root)):
        constants = _constants(function)
        if not constants or function.start < 0:
            continue
        parts = [text[node.start : node.end] for node in constants]
        fields = {part: f"c{number}" for number, part in enumerate(dict.fromkeys(parts))}
        struct = ", ".join(f"'{field}', {part}" for part, field in fields.items())
        inside, begin = [], function.start
        for node, part in zip(constants, parts, strict=True):
            inside += [text[begin : node.start], f"{name}.{fields[part]}"]
            begin = node.end
        inside.append(text[begin : function.end])
        pieces += [
            text[done : function.start],
            f"transform(array(named_struct({struct})), {name} -> {''.join(inside)})[0]",
        ]
        done = function.end
    return "".join([*pieces, text[done:]])


def _outermost(node: _Node) -> Iterator[_Node]:
    """Yield the functions that take lambdas, but none inside another, in the order of the text."""
    if any(child.kind == _LAMBDA for child in node.children):
        yield node
        return
    for child in sorted(node.children, key=lambda one: one.start):
        yield from _outermost(child)


def _constants(function: _Node) -> list[_Node]:
    """Return made text inside the lambdas of a function that depends on none of their parameters, in the order of the text."""
    lambdas = [node for node in function.nodes() if node.kind == _LAMBDA]
    # A lambda has its body first, then its parameters.
    parameters = {child.name for node in lambdas for child in node.children[1:]}
    found = {(one.start, one.end): one for node in lambdas for one in _made_of_others(node.children[0], parameters)}
    return [found[place] for place in sorted(found)]


def _made_of_others(node: _Node, parameters: Collection[str]) -> Iterator[_Node]:
    names = {one.name for one in node.nodes() if one.kind in _NAMES}
    if node.is_made_text and names and not names & {*parameters} and node.start >= 0:
        yield node
        return
    for child in node.children:
        yield from _made_of_others(child, parameters)
