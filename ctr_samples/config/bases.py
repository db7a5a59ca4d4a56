"""Configurations that say only what differs from another one: ``base: samples.yaml``."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from copy import copy
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from ctr_samples.config.document import FILES, at, line_of
from ctr_samples.errors import ConfigError

BASE = "base"
"""The key with the path of the configuration below, relative to its own file."""

LOWEST = "lowest_file"
"""Attribute of a merged configuration: the file of the lowest base."""

_MOST = 8


def with_base(tree: CommentedMap, path: Path, parse: Callable[[Path], CommentedMap]) -> CommentedMap:
    """Return the configuration of a file, merged onto its base, and that onto its own.

    Keys of maps are merged. Any other value, lists too, replaces that of the base, and ``null`` removes the key. Raises
    ConfigError for a base that cannot be read, that leads back to itself, or whose output the configuration would write
    to.
    """
    return _merged(tree, path, parse, [path.resolve()])


def _merged(tree: CommentedMap, path: Path, parse: Callable[[Path], CommentedMap], files: list[Path]) -> CommentedMap:
    if BASE not in tree:
        return tree
    named = tree[BASE]
    where = at(str(path), tree, [BASE])
    if not isinstance(named, str) or not named:
        raise ConfigError(f"{where}found {named!r}, expected the path of a configuration, such as samples.yaml.")
    below = path.parent / named
    if below.resolve() in files or len(files) > _MOST:
        raise ConfigError(f"{where}{named} leads back to this file; name a configuration without such a base.")
    if not below.is_file():
        raise ConfigError(f"{where}there is no configuration {below}; the path is relative to {path.parent or '.'}.")
    lower = _merged(parse(below), below, parse, [*files, below.resolve()])
    of_lower = (lower.get("output") or {}).get("path")
    upper = copy(tree)
    del upper[BASE]
    merged = _onto(lower, upper, str(below), str(path))
    setattr(merged, LOWEST, getattr(lower, LOWEST, str(below)))
    output = merged.get("output")
    if of_lower is not None and isinstance(output, CommentedMap) and output.get("path") == of_lower:
        raise ConfigError(
            f"{path}: output.path is that of {below}, {of_lower!r}; set another one, since each sample set needs its own."
        )
    return merged


def _onto(lower: CommentedMap, upper: CommentedMap, below: str, above: str) -> CommentedMap:
    """Merge ``upper`` onto ``lower``. The keys remember their files: ``below``, unless they know better, or ``above``."""
    merged, files = CommentedMap(), dict[Any, str]()
    for node, file in ((lower, below), (upper, above)):
        for key, value in node.items():
            if value is None:
                merged.pop(key, None)
                continue
            here = merged.get(key)
            both = isinstance(here, CommentedMap) and isinstance(value, CommentedMap)
            merged[key] = _onto(here, value, below, above) if both else value
            merged.lc.add_kv_line_col(key, node.lc.data[key])
            files[key] = getattr(node, FILES, {}).get(key, file)
    setattr(merged, FILES, files)
    return merged


def merged_text(tree: CommentedMap) -> str:
    """Return a merged configuration as YAML, with the file and line of each value that is not from the lowest base."""
    lowest = getattr(tree, LOWEST)
    copied = YAML(typ="rt", pure=True).load(_text(tree))
    for node, of_text, key, file in _values(tree, copied, lowest):
        if file != lowest:
            of_text.yaml_add_eol_comment(f"{file}:{line_of(node, key)}", key)
    return f"# From {lowest}, with what differs\n{_text(copied).rstrip()}"


def _text(tree: CommentedMap) -> str:
    text, yaml = io.StringIO(), YAML(typ="rt", pure=True)
    yaml.width = 1000
    yaml.dump(tree, text)
    return text.getvalue()


def _values(
    tree: CommentedMap, copied: CommentedMap, file: str
) -> Iterator[tuple[CommentedMap, CommentedMap, Any, str]]:
    """Yield the map, the copied map, the key and the file of each value that is no map of several lines."""
    for key, value in tree.items():
        of_key = getattr(tree, FILES, {}).get(key, file)
        if isinstance(value, CommentedMap) and not value.fa.flow_style():
            yield from _values(value, copied[key], of_key)
        else:
            yield tree, copied, key, of_key
