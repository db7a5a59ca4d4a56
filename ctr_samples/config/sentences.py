"""From an error of pydantic to a sentence with file, line, key, what was found and what was expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import ErrorDetails
from ruamel.yaml.comments import CommentedMap

from ctr_samples.addresses import holds_credentials
from ctr_samples.config.document import REFERENCE, at, plain
from ctr_samples.config.places import Place, place_of

_LONGEST_VALUE = 80

_A_NAME = "a name of letters, digits and `_` that starts with a letter"
_EXPECTED = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "keys",
    "finite_number": "a finite number",
    "float_parsing": "a number",
    "float_type": "a number",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number of 64 bits",
    "int_type": "a whole number",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "list_type": "a list",
    "literal_error": "{expected}",
    "string_too_short": "some text",
    "string_type": "text",
    "too_short": "at least {min_length}",
    "tuple_type": "a list such as [100]",
}
"""What pydantic's types of error expect, in words."""


def sentence(path: str, tree: CommentedMap, detail: ErrorDetails) -> str:
    """What is wrong at one place, without a full stop."""
    *parents, last = detail["loc"] or ("",)
    place = place_of(parents)
    where = place.where
    if detail["type"] == "missing":
        return f"{at(path, tree, where)}the key `{last}` is missing{place.hint_for(str(last))}"
    if detail["type"] == "extra_forbidden":
        return at(path, tree, (*where, str(last))) + place.unexpected(str(last))
    is_key = last == "[key]" or detail["type"] == "invalid_key"
    place = place.below(last)
    if detail["type"].startswith("union_tag_"):
        return _unknown_kind(path, tree, detail, place.where)
    key, found = at(path, tree, place.where), _found(as_written(tree, place.where, detail["input"]))
    if detail["type"] == "value_error":
        message = str(detail["ctx"]["error"])
        return f"{key}{message}" if isinstance(detail["input"], dict) else f"{key}found {found}, {message}"
    expected = "a name" if is_key and detail["type"] != "string_pattern_mismatch" else _expected(detail, place)
    return f"{key}found {'the key ' if is_key else ''}{found}, expected {expected}"


def _unknown_kind(path: str, tree: CommentedMap, detail: ErrorDetails, where: tuple[str, ...]) -> str:
    """A union whose members one key tells apart, where that key is missing or says something else."""
    key = detail["ctx"]["discriminator"].strip("'")
    if detail["type"] == "union_tag_not_found":
        return f"{at(path, tree, where)}the key `{key}` is missing"
    found = _found(as_written(tree, (*where, key), detail["input"][key]))
    expected = " or ".join(detail["ctx"]["expected_tags"].rsplit(", ", 1))
    return f"{at(path, tree, (*where, key))}found {found}, expected {expected}"


def _expected(detail: ErrorDetails, place: Place) -> str:
    context = detail.get("ctx", {})
    match detail["type"]:
        case "model_type" | "model_attributes_type":
            return f"keys such as `{place.keys[0]}:`"
        case "string_pattern_mismatch":
            small = context["pattern"].startswith("^[a-z]")
            return "a name of lower-case letters, digits, `_` and `-` that starts with a letter" if small else _A_NAME
        case kind if kind in _EXPECTED:
            return _EXPECTED[kind].format(**context)
        case _:
            return detail["msg"].removeprefix("Input should be ")


def as_written(tree: Any, where: Sequence[str], value: Any) -> Any:
    """The text of the file where it has ``${NAME}``, else ``value``: what it was filled with is shown nowhere, not even cut."""
    node = tree
    for part in where:
        try:
            node = node[int(part) if isinstance(node, list) else part]
        except (KeyError, IndexError, TypeError, ValueError):
            return value
    return node if isinstance(node, str) and REFERENCE.search(node) else value


def _found(value: Any) -> str:
    if isinstance(value, dict | list):
        return kind_of(value) if value else f"no {'keys' if isinstance(value, dict) else 'items'}"
    if isinstance(value, str) and holds_credentials(value):
        return "an address with credentials"
    text = repr(plain(value))
    return "nothing" if value is None else text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


def kind_of(value: Any) -> str:
    """A value of the file in a word or two."""
    if value is None:
        return "an empty file"
    if isinstance(value, Mapping):
        return "keys"
    return "a list" if isinstance(value, list) else repr(plain(value))
