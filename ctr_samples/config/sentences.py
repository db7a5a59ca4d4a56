"""Turn pydantic errors into sentences with the file, line, key, value found and value expected."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails
from ruamel.yaml.comments import CommentedMap

from ctr_samples.addresses import holds_credentials
from ctr_samples.config.document import REFERENCE, at, plain
from ctr_samples.config.job import JobConfig
from ctr_samples.config.kinds import Kind, keys_of, kinds_of, unexpected

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
"""Expected input for each pydantic error type, in words."""


def sentence(path: str, tree: CommentedMap, detail: ErrorDetails) -> str:
    """Describe the problem at one location, without a full stop."""
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
    """Describe a union entry whose discriminator is missing or unknown."""
    key = detail["ctx"]["discriminator"].strip("'")
    if detail["type"] == "union_tag_not_found":
        return f"{at(path, tree, where)}the key `{key}` is missing"
    found = _found(as_written(tree, (*where, key), detail["input"][key]))
    expected = " or ".join(detail["ctx"]["expected_tags"].rsplit(", ", 1))
    return f"{at(path, tree, (*where, key))}found {found}, expected {expected}"


def _expected(detail: ErrorDetails, place: KeyPlace) -> str:
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
    """Return the original text if it has ``${NAME}``, else ``value``. Never shows a filled value, even truncated."""
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
    """Describe a YAML value in a word or two."""
    if value is None:
        return "an empty file"
    if isinstance(value, Mapping):
        return "keys"
    return "a list" if isinstance(value, list) else repr(plain(value))


@dataclass(frozen=True, slots=True)
class KeyPlace:
    """A location in the file with its type. ``kinds`` holds the models of the union that contains the type."""

    where: tuple[str, ...] = ()
    type: Any = JobConfig
    kinds: tuple[type[Kind], ...] = ()

    def below(self, part: int | str) -> KeyPlace:
        """Follow one step of an error location. Pydantic also includes union kinds, which are not keys of the file."""
        kinds = kinds_of(self.type)
        if part in kinds:
            return KeyPlace(self.where, kinds[str(part)], tuple(dict.fromkeys(kinds.values())))
        return KeyPlace((*self.where, str(part)), _type_below(self.type, str(part))) if _is_key(part) else self

    @property
    def model(self) -> type[BaseModel] | None:
        """Model at this place, or the first model of a union."""
        kinds = kinds_of(self.type)
        members = [*kinds.values()] or [self.type, *([] if _is_dict(self.type) else get_args(self.type))]
        return next((m for m in members if isinstance(m, type) and issubclass(m, BaseModel)), None)

    @property
    def keys(self) -> list[str]:
        """Keys of the model at this place."""
        return keys_of(self.model) if self.model is not None else []

    def unexpected(self, key: str) -> str:
        """Describe the problem with a key that the model lacks."""
        return unexpected(key, self.model or JobConfig, self.kinds)

    def hint_for(self, key: str) -> str:
        """Return the model's hint for a missing key."""
        fields = self.model.model_fields.items() if self.model is not None else ()
        extra = next((field.json_schema_extra for name, field in fields if key in (name, field.alias)), None)
        return f"; {extra['hint']}" if isinstance(extra, dict) and "hint" in extra else ""


def place_of(location: Sequence[int | str]) -> KeyPlace:
    """Return the place at an error location."""
    return reduce(KeyPlace.below, location, KeyPlace())


def _is_key(part: int | str) -> bool:
    # pydantic adds the names of union members and validators to a location; they are not keys of the file.
    return isinstance(part, int) or bool(re.fullmatch(r"\w[\w-]*", part) and not part.startswith("function-"))


def _type_below(annotation: Any, key: str) -> Any:
    if _is_dict(annotation):
        return get_args(annotation)[1]
    model = KeyPlace(type=annotation).model
    fields = model.model_fields if model is not None else {}
    return next((field.annotation for name, field in fields.items() if key == (field.alias or name)), None)


def _is_dict(annotation: Any) -> bool:
    return getattr(annotation, "__origin__", None) is dict
