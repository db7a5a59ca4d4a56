"""Loading of the YAML file: environment references, overrides, models, and a sentence for each problem."""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError

from ctr_samples.config.bases import LOWEST, merged_text, with_base
from ctr_samples.config.document import at, deciding_names, filled, names, plain, references
from ctr_samples.config.job import JobConfig
from ctr_samples.config.masking import LEFT_OUT, mask, masking, remember
from ctr_samples.config.problems import Problem, end_sentence
from ctr_samples.config.references import check_references, check_secrets
from ctr_samples.config.sentences import as_written, kind_of, sentence
from ctr_samples.errors import ConfigError, CtrSamplesError, UsageError

_MOST_PROBLEMS = 8


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """Valid configuration with its source document.

    ``document`` is the file after ``--set``, with ``${NAME}`` unfilled. The manifest stores this form, so that a
    password from the environment is never written anywhere.
    """

    config: JobConfig
    document: dict[str, Any]
    path: str
    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Value of each ``${NAME}`` in the file."""

    def masked(self, text: str) -> str:
        """Return the text with ``${NAME}`` in place of its value."""
        return mask(text, self.values)

    def place_of(self, where: Sequence[str]) -> str:
        """Return ``my.yaml:12: views.item.ttl: `` with the line of the key or of its nearest existing parent."""
        return at(self.path, _tree(Path(self.path)), where)

    @contextmanager
    def masked_errors(self) -> Iterator[None]:
        """Mask values from the environment in expected errors of the block, and in their causes.

        In the block :func:`ctr_samples.config.masking.written` recognizes the texts of the file.
        """
        try:
            with masking():
                remember(self.values, dict(references(self.document, self.values)))
                yield
        except CtrSamplesError as error:
            trace = "".join(traceback.format_exception(error))
            if self.masked(trace) == trace:
                raise
            raise type(error)(self.masked(str(error))) from None

    @property
    def deciding(self) -> dict[str, str]:
        """Value of each ``${NAME}`` on which the bytes of the samples depend."""
        return {name: self.values[name] for name in sorted(deciding_names(self.document))}

    @property
    def in_plans(self) -> list[str]:
        """Names of all ``${NAME}`` whose values appear in Spark plans: all except database logins."""
        document = deepcopy(self.document)
        for source in (document.get("sources") or {}).values():
            for key in ("url", "user", "password", "driver"):
                source.pop(key, None)
        document.pop("output", None)
        return sorted(set(names(document)))

    def text_with_origins(self) -> str | None:
        """Return the merged configuration as YAML, with the file of what comes from a base, or None without a base.

        Overrides are not in it.
        """
        tree = _tree(Path(self.path))
        return merged_text(tree) if hasattr(tree, LOWEST) else None

    def refuse_secrets(self) -> None:
        """Raise ConfigError if the file itself contains a secret, which would go into every manifest."""
        for problem in check_secrets(self.document):
            raise ConfigError(f"{self.path}: {'.'.join(problem.where)} {problem.what}.")


def loaded_of(given: LoadedConfig | str | Path) -> LoadedConfig:
    """Return a loaded configuration, or load a file with :func:`load_config`. Raise UsageError for other types."""
    if isinstance(given, str | Path):
        return load_config(given)
    if not isinstance(given, LoadedConfig):
        raise UsageError(f"The configuration is {given!r}; expected the path of its file, or what `load_config` gives.")
    return given


def load_config(
    path: str | Path, overrides: Sequence[str] = (), environ: Mapping[str, str] = os.environ
) -> LoadedConfig:
    """Read and check a configuration file.

    ``overrides`` are ``a.b=value`` texts with YAML values. Raises ConfigError with a line for each problem.
    """
    tree = _tree(Path(path))
    for override in overrides:
        _override(tree, override)
    if problem := too_large(tree):
        raise ConfigError(f"{path} {problem}.")
    for where in _no_names(tree):
        raise ConfigError(
            f"{at(str(path), tree, where)}found a key that is a map or a list, expected a name; put a value with braces or "
            "brackets in quotes."
        )

    def value_of(name: str, where: tuple[Any, ...]) -> str:
        if name not in environ:
            what = f"the environment variable {name} is not set; set it before the run."
            raise ConfigError(at(str(path), tree, where) + what)
        return environ[name]

    document = filled(tree, value_of)
    document_as_written = plain(tree)
    values = {name: environ[name] for name in names(document_as_written) if name in environ}
    texts = dict(references(document_as_written, values))
    remember(values, texts)
    try:
        config = JobConfig.model_validate(document)
    except ValidationError as error:
        lines = [sentence(str(path), tree, detail) for detail in error.errors()]
        raise ConfigError(mask(_report(lines), values)) from None
    problems = [at(str(path), tree, p.where) + _told(p, tree, values) for p in check_references(config)]
    if problems:
        raise ConfigError(mask(_report(problems), values))
    return LoadedConfig(config, cast(dict[str, Any], document_as_written), str(path), values)


def _told(problem: Problem, tree: CommentedMap, values: Mapping[str, str]) -> str:
    """Describe a problem. Omits details that contain a word of a ``${NAME}`` value, such as a column name."""
    text = as_written(tree, problem.where, "")
    inside = {word for name in names(text) for word in _words(values.get(name, ""))}
    if inside.isdisjoint(_words(mask(problem.what, values))):
        return problem.what
    return f"{text!r} does not fit the rest of the file; {LEFT_OUT}"


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w{2,}", text.lower()))


def _tree(path: Path) -> CommentedMap:
    """Parse a file, and merge it onto its base if it names one."""
    return with_base(_parse(path), path, _parse)


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
        raise ConfigError(f"{path}:{line}: the key {key[1] if key else '?'!r} appears twice; keep one.") from None
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else "?"
        here = text.splitlines()[error.problem_mark.line : error.problem_mark.line + 1] if error.problem_mark else []
        hint = "; inside braces a value with `${NAME}` needs quotes" if any("${" in one for one in here) else ""
        raise ConfigError(f"{path}:{line}: this is not YAML: {error.problem}{hint}.") from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigError(f"{path}:{line}: found the control character {chr(error.character)!r}; remove it.") from None
    except RecursionError:
        raise ConfigError(f"{path}: the file is nested too deeply; make it flatter.") from None
    except (YAMLError, ValueError) as error:
        # ruamel does not wrap errors of int() and date().
        raise ConfigError(f"{path}: this is not YAML: {str(error).splitlines()[0]}.") from None
    if not isinstance(tree, CommentedMap):
        raise ConfigError(f"{path}: found {kind_of(tree)}, expected keys such as `name:` and `sources:`.")
    return tree


def _no_names(node: Any, where: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the places of maps with keys that are maps or lists."""
    if isinstance(node, Mapping | list):
        children = node.items() if isinstance(node, Mapping) else enumerate(node)
        for key, child in children:
            if isinstance(key, Mapping | tuple):
                yield where
            else:
                yield from _no_names(child, (*where, key))


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
    except (YAMLError, ValueError, TypeError, RecursionError):
        raise ConfigError(f"--set {override}: the value is not YAML; quote it.") from None


def _report(lines: Sequence[str]) -> str:
    unique = list(dict.fromkeys(end_sentence(line) for line in lines))
    if len(unique) > _MOST_PROBLEMS:
        unique = [*unique[:_MOST_PROBLEMS], f"... and {len(unique) - _MOST_PROBLEMS} more."]
    return "\n".join(unique)


LARGEST_FILE = 2 * 2**20
_MOST_VALUES = 200_000


def too_large(tree: Any) -> str | None:
    """Describe a document that refers to itself or grows too large through aliases. Visits each part once."""
    sizes: dict[int, int] = {}
    try:
        size = _size(tree, sizes, set())
    except RecursionError:
        return "is nested too deeply; make it flatter"
    if size is None:
        return "has an alias that refers to a part of itself; write the part out"
    if size > _MOST_VALUES:
        return f"has {size:,} values once its aliases are expanded, expected at most {_MOST_VALUES:,}"
    return None


def _size(node: Any, sizes: dict[int, int], above: set[int]) -> int | None:
    parts: Iterable[Any] = node.values() if isinstance(node, Mapping) else node if isinstance(node, list) else ()
    if not isinstance(node, Mapping | list):
        return 1
    if id(node) in above:
        return None
    if id(node) not in sizes:
        total = 1
        for part in parts:
            size = _size(part, sizes, above | {id(node)})
            if size is None:
                return None
            total += size
        sizes[id(node)] = total
    return sizes[id(node)]
