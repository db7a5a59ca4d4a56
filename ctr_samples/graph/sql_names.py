"""The names in a SQL expression, found without Spark.

A scanner, not a parser: it knows strings, comments, quoted names, dotted names, brackets and lambdas, which is all that
decides what a name may stand for. So it cannot fail on SQL that it does not know, and no release of Spark changes what it
finds.
It may find more than an expression reads, such as a keyword that is a name as well, but never less.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

SqlName = tuple[str, ...]
"""A dotted name by its parts, as in ``("item", "price")``. Case is kept."""

_TOKEN = re.compile(
    r"""
      (?P<blank>  \s+ | --[^\r\n]* )
    | (?P<comment> /\* )
    | (?P<raw>    [rR](?:'[^']*' | "[^"]*") )
    | (?P<text>   '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" )
    | (?P<name>   `(?:[^`]|``)+` | \w+ )
    | (?P<arrow>  -> )
    | (?P<cast>   :: )
    | (?P<open>   [(\[] )
    | (?P<close>  [)\]] )
    | (?P<sign>   [-+*/%&|^~!<>=,.:;?@$\#{}] )
    """,
    re.VERBOSE | re.DOTALL,
)
_NUMBER = re.compile(r"\d+(?:[eE]\d+)?(?:[lLsSyYdDfF]|[bB][dD])?")
_COMMENT = re.compile(r"/\*|\*/")


def names_in(text: str) -> list[SqlName] | None:
    """Return the names in an expression that may be columns, in order. None if it reads everything, or what cannot be told.

    Left out are names in strings and comments, functions, parameters of lambdas where they hold, fields of other values as in
    ``f(x).price``, and paths into a VARIANT. ``item['price']``, ``to_json(item)`` and ``item.*`` give ``("item",)``.
    """
    tokens = _tokens(text)
    return None if tokens is None else _names(tokens)


def dotted(text: str) -> SqlName | None:
    """Return the parts of a text that is one dotted name and nothing else, or None."""
    tokens = _tokens(text)
    if not tokens or tokens[0][0] != "name":
        return None
    path, after = _path(tokens, 0)
    return path if after == len(tokens) else None


def _tokens(text: str) -> list[tuple[str, str]] | None:
    """Return the tokens with their kinds, without blanks and comments. None if the text does not consist of tokens."""
    tokens, at = [], 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            return None
        at, kind = found.end(), str(found.lastgroup)
        if kind == "comment":
            at = _end_of_comment(text, at)
            if at < 0:
                return None
        elif kind != "blank":
            tokens.append((kind, found[0]))
    return tokens


def _end_of_comment(text: str, at: int) -> int:
    """Return where a comment ends that began before ``at``. Comments are nested. Negative if it does not end."""
    depth = 1
    while depth:
        found = _COMMENT.search(text, at)
        if found is None:
            return -1
        depth += 1 if found[0] == "/*" else -1
        at = found.end()
    return at


def _names(tokens: Sequence[tuple[str, str]]) -> list[SqlName] | None:
    names: list[SqlName] = []
    depth = 0
    hidden: list[tuple[int, set[str]]] = []  # parameters of lambdas with the depth of their brackets
    at = 0
    while at < len(tokens):
        parameters, after = _parameters(tokens, at)
        if parameters:
            hidden.append((depth, parameters))
            at = after
            continue
        kind, word = tokens[at]
        before = tokens[at - 1] if at else ("open", "(")
        if word in "$@{}?" or (word == "*" and _is_star(tokens, at)) or (kind == "name" and "${" in word):
            return None
        if kind == "open":
            depth += 1
        elif kind == "close" or word == ",":
            while hidden and hidden[-1][0] >= depth:
                hidden.pop()
            depth -= kind == "close"
        if kind != "name":
            at += 1
            continue
        path, after = _path(tokens, at)
        is_call = after < len(tokens) and tokens[after][1] == "("
        if is_call and path[-1].lower() == "identifier":
            return None
        is_parameter = any(path[0].lower() in some for _, some in hidden)
        is_other = before[1] in (".", ":", "::") or _NUMBER.fullmatch(path[0])
        if not (is_other or is_call or is_parameter):
            names.append(path)
        at = after
    return names


def _is_star(tokens: Sequence[tuple[str, str]], at: int) -> bool:
    """Whether ``*`` stands for all columns, not for a product, or for all fields of the name before it."""
    ends = (tokens[at - 1] if at else ("open", "("), tokens[at + 1] if at + 1 < len(tokens) else ("close", ")"))
    return ends[0][1] != "." and any(kind in ("open", "close") or word == "," for kind, word in ends)


def _path(tokens: Sequence[tuple[str, str]], at: int) -> tuple[SqlName, int]:
    """Return the dotted name that begins at a word, and the place after it."""
    parts = [_plain(tokens[at][1])]
    at += 1
    while at + 1 < len(tokens) and tokens[at][1] == "." and tokens[at + 1][0] == "name":
        parts.append(_plain(tokens[at + 1][1]))
        at += 2
    return tuple(parts), at


def _parameters(tokens: Sequence[tuple[str, str]], at: int) -> tuple[set[str], int]:
    """Return the parameters of a lambda that begins at a word, in lower case, and the place after its arrow."""
    stop = at + 1
    if tokens[at][1] == "(":
        while stop < len(tokens) and (tokens[stop][0] == "name" or tokens[stop][1] == ","):
            stop += 1
        if stop == len(tokens) or tokens[stop][1] != ")":
            return set(), at
        stop += 1
    elif tokens[at][0] != "name":
        return set(), at
    if stop == len(tokens) or tokens[stop][0] != "arrow":
        return set(), at
    return {_plain(word).lower() for kind, word in tokens[at:stop] if kind == "name"}, stop + 1


def _plain(word: str) -> str:
    return word[1:-1].replace("``", "`") if word[0] == "`" else word


def roots(paths: Sequence[SqlName]) -> Iterator[str]:
    """Yield the first part of each name, in lower case."""
    yield from (path[0].lower() for path in paths)
