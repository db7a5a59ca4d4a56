"""Reads the YAML file: templates, overrides, and errors that name file, line, key, what was found and expected."""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError

from ctr_samples.addresses import holds_credentials
from ctr_samples.config.masking import mask, remember
from ctr_samples.config.models import JobConfig
from ctr_samples.config.problems import end_sentence, nearest
from ctr_samples.config.references import check_references, check_secrets
from ctr_samples.config.sizes import LARGEST_FILE, too_large
from ctr_samples.errors import ConfigError, CtrSamplesError

_REFERENCE = re.compile(r"\$\{(\w+)\}")

_MOST_PROBLEMS = 8
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


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A valid configuration with the document that it came from.

    ``document`` is the file after ``--set``, with ``${NAME}`` left as it stands: what the manifest keeps, so that a
    password that came from the environment is never written anywhere.
    """

    config: JobConfig
    document: dict[str, Any]
    path: str
    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What each ``${NAME}`` of the file was filled with."""

    def masked(self, text: str) -> str:
        """The text with ``${NAME}`` in place of what it was filled with."""
        return mask(text, self.values)

    @contextmanager
    def masked_errors(self) -> Iterator[None]:
        """An expected error of the block tells nothing that came from the environment, nor does what it was made from."""
        try:
            yield
        except CtrSamplesError as error:
            trace = "".join(traceback.format_exception(error))
            if self.masked(trace) == trace:
                raise
            raise type(error)(self.masked(str(error))) from None

    @property
    def in_plans(self) -> list[str]:
        """The names of those ``${NAME}`` whose values Spark sees in its plans: all but what logs in to a database."""
        document = deepcopy(self.document)
        for source in (document.get("sources") or {}).values():
            for key in ("url", "user", "password", "driver"):
                source.pop(key, None)
        document.pop("output", None)
        return sorted(set(_names(document)))

    def refuse_secrets(self) -> None:
        """Raise ConfigError if a secret stands in the file itself, from where it would go into every manifest."""
        for problem in check_secrets(self.document):
            raise ConfigError(f"{self.path}: {'.'.join(problem.where)} {problem.what}.")


def load_config(
    path: str | Path, overrides: Sequence[str] = (), environ: Mapping[str, str] = os.environ
) -> LoadedConfig:
    """Read and check a configuration file.

    ``overrides`` are ``a.b=value`` texts whose value is read as YAML. Raises ConfigError with a line for each problem.
    """
    tree = _parse(Path(path))
    for override in overrides:
        _override(tree, override)
    if problem := too_large(tree):
        raise ConfigError(f"{path} {problem}.")
    filled = _fill(tree, environ, str(path), tree, ())
    values = {name: environ[name] for name in _names(_plain(tree)) if name in environ}
    remember(values)
    try:
        config = JobConfig.model_validate(filled)
    except ValidationError as error:
        lines = [_sentence(str(path), tree, detail) for detail in error.errors()]
        raise ConfigError(mask(_report(lines), values)) from None
    problems = [_at(str(path), tree, p.where) + p.what for p in check_references(config)]
    if problems:
        raise ConfigError(mask(_report(problems), values))
    return LoadedConfig(config, cast(dict[str, Any], _plain(tree)), str(path), values)


def _parse(path: Path) -> CommentedMap:
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise ConfigError(f"{path} has {path.stat().st_size:,} bytes, expected a configuration of at most 2 MiB.")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"There is no configuration file {path}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The configuration file {path} cannot be read: {error}.") from None
    yaml = YAML(typ="rt", pure=True)
    try:
        tree = yaml.load(text)
    except DuplicateKeyError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else "?"
        key = re.search(r'found duplicate key "([^"]*)"', str(error))
        raise ConfigError(f"{path}:{line}: the key {key[1] if key else '?'!r} stands here twice; keep one.") from None
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else "?"
        raise ConfigError(f"{path}:{line}: this is not YAML: {error.problem}.") from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigError(f"{path}:{line}: found the control character {chr(error.character)!r}; remove it.") from None
    except RecursionError:
        raise ConfigError(f"{path}: the file is nested too deeply; make it flatter.") from None
    except (YAMLError, ValueError) as error:
        # ruamel passes on what int() and date() say of a value.
        raise ConfigError(f"{path}: this is not YAML: {str(error).splitlines()[0]}.") from None
    if not isinstance(tree, CommentedMap):
        raise ConfigError(f"{path}: found {_kind(tree)}, expected keys such as `name:` and `sources:`.")
    return tree


def _override(tree: CommentedMap, override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", key):
        raise ConfigError(f"--set {override}: expected the form a.b=value, such as output.path=build/samples.")
    node: Any = tree
    *parents, last = key.split(".")
    for depth, part in enumerate(parents):
        node = node.setdefault(part, CommentedMap())
        if not isinstance(node, CommentedMap):
            raise ConfigError(f"--set {override}: {'.'.join(parents[: depth + 1])} holds a value, not keys.")
    try:
        node[last] = YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError, RecursionError):
        raise ConfigError(f"--set {override}: the value is not YAML; quote it.") from None


def _fill(node: Any, environ: Mapping[str, str], path: str, tree: CommentedMap, where: tuple[Any, ...]) -> Any:
    """A plain copy of the tree with ``${NAME}`` replaced."""
    if isinstance(node, Mapping):
        return {k: _fill(v, environ, path, tree, (*where, k)) for k, v in node.items()}
    if isinstance(node, list):
        return [_fill(v, environ, path, tree, (*where, i)) for i, v in enumerate(node)]
    if not isinstance(node, str):
        return _plain(node)

    def value(match: re.Match[str]) -> str:
        if match[1] not in environ:
            raise ConfigError(
                _at(path, tree, where) + f"the environment variable {match[1]} is not set; set it before the run."
            )
        return environ[match[1]]

    return _REFERENCE.sub(value, node)


def _names(node: Any) -> Iterator[str]:
    """The names of all ``${NAME}`` in a document."""
    if isinstance(node, Mapping | list):
        for child in node.values() if isinstance(node, Mapping) else node:
            yield from _names(child)
    elif isinstance(node, str):
        yield from _REFERENCE.findall(node)


def _plain(node: Any) -> Any:
    """The tree without ruamel's own types, ready for JSON."""
    if isinstance(node, Mapping):
        return {str(k): _plain(v) for k, v in node.items()}
    if isinstance(node, list):
        return [_plain(v) for v in node]
    for kind in (bool, int, float, str):
        if isinstance(node, kind):
            return kind(node)
    return node if node is None else str(node)


def _sentence(path: str, tree: CommentedMap, detail: ErrorDetails) -> str:
    *parents, last = detail["loc"]
    where = tuple(str(part) for part in parents if _is_key(part))
    if detail["type"] == "missing":
        return f"{_at(path, tree, where)}the key `{last}` is missing"
    if detail["type"] == "extra_forbidden":
        return f"{_at(path, tree, (*where, str(last)))}unknown key{nearest(str(last), _valid_keys(where))}"
    is_key = last == "[key]" or detail["type"] == "invalid_key"
    if _is_key(last):
        where = (*where, str(last))
    place, found = _at(path, tree, where), _found(_as_written(tree, where, detail["input"]))
    if detail["type"] == "value_error":
        message = str(detail["ctx"]["error"])
        return f"{place}{message}" if isinstance(detail["input"], dict) else f"{place}found {found}, {message}"
    expected = "a name" if is_key and detail["type"] != "string_pattern_mismatch" else _expected(detail, where)
    return f"{place}found {'the key ' if is_key else ''}{found}, expected {expected}"


def _expected(detail: ErrorDetails, where: tuple[str, ...]) -> str:
    context = detail.get("ctx", {})
    match detail["type"]:
        case "model_type":
            return f"keys such as `{_valid_keys(where)[0]}:`"
        case "string_pattern_mismatch":
            small = context["pattern"].startswith("^[a-z]")
            return "a name of small letters, digits, `_` and `-` that starts with a letter" if small else _A_NAME
        case kind if kind in _EXPECTED:
            return _EXPECTED[kind].format(**context)
        case _:
            return detail["msg"].removeprefix("Input should be ")


def _is_key(part: int | str) -> bool:
    # pydantic adds the names of union members and validators to a location; they are no keys of the file.
    return isinstance(part, int) or bool(re.fullmatch(r"\w[\w-]*", part) and not part.startswith("function-"))


def _as_written(tree: Any, where: Sequence[str], value: Any) -> Any:
    """The text of the file where it has ``${NAME}``: what a part of it was filled with is shown nowhere, not even cut."""
    node = tree
    for part in where:
        try:
            node = node[int(part) if isinstance(node, list) else part]
        except (KeyError, IndexError, TypeError, ValueError):
            return value
    return node if isinstance(node, str) and _REFERENCE.search(node) else value


def _found(value: Any) -> str:
    if isinstance(value, dict | list):
        return _kind(value) if value else f"no {'keys' if isinstance(value, dict) else 'items'}"
    if isinstance(value, str) and holds_credentials(value):
        return "an address with credentials"
    text = repr(_plain(value))
    return "nothing" if value is None else text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


def _kind(value: Any) -> str:
    if value is None:
        return "an empty file"
    if isinstance(value, Mapping):
        return "keys"
    return "a list" if isinstance(value, list) else repr(_plain(value))


def _valid_keys(where: tuple[str, ...]) -> list[str]:
    """The keys that the model at ``where`` has, followed through dictionaries and optional members."""
    model: Any = JobConfig
    for part in where:
        if isinstance(model, type) and issubclass(model, BaseModel):
            fields = {f.alias or name: f for name, f in model.model_fields.items()}
            if part not in fields:
                return []
            model = fields[part].annotation
            members = [m for m in get_args(model) if isinstance(m, type) and issubclass(m, BaseModel)]
            model = members[0] if members and not _is_dict(model) else model
        elif _is_dict(model):
            model = get_args(model)[1]
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        return []
    return [f.alias or name for name, f in model.model_fields.items()]


def _is_dict(annotation: Any) -> bool:
    return getattr(annotation, "__origin__", None) is dict


def _at(path: str, tree: CommentedMap, where: Sequence[Any]) -> str:
    """``conf/x.yaml:12: views.item.ttl: `` with the line of the nearest key that the file has."""
    line, node = None, tree
    for part in where:
        key = int(part) if isinstance(node, CommentedSeq) and str(part).isdigit() else part
        try:
            line = node.lc.key(key)[0] if isinstance(node, CommentedMap) else node.lc.item(key)[0]
            node = node[key]
        except (AttributeError, KeyError, IndexError, TypeError):
            break
    position = f"{path}:{line + 1}: " if line is not None else f"{path}: "
    return position + (".".join(str(part) for part in where) + ": " if where else "")


def _report(lines: Sequence[str]) -> str:
    unique = list(dict.fromkeys(end_sentence(line) for line in lines))
    if len(unique) > _MOST_PROBLEMS:
        unique = [*unique[:_MOST_PROBLEMS], f"... and {len(unique) - _MOST_PROBLEMS} more."]
    return "\n".join(unique)
