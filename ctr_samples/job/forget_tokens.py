"""Users who are to be forgotten as tokens: what leaves the vocabularies beside the samples, and where they may be named still.

Pure functions of the configuration in a manifest, in which ``${NAME}`` is not filled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any


def without_tokens(config: Mapping[str, Any], key: str, values: Sequence[str]) -> Callable[[str, str], str]:
    """A function from the name and the lines of a vocabulary to the lines without the values of the column ``key``.

    A vocabulary is changed if one of its features mentions what the column is made from: elsewhere an equal token is something
    else. A line that no text can be takes the place of each, so that all others keep their ids.
    """
    gone, theirs = set(values), _vocabularies_of(config, key)

    def without(name: str, text: str) -> str:
        if name not in theirs:
            return text
        lines = text.split("\n")
        return "\n".join(f"\0forgotten {n}" if line in gone else line for n, line in enumerate(lines, 1))

    return without


def remaining(config: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each place outside of the samples that may still name them, and how that ends."""
    if config.get("fitted") and config.get("vocabularies"):
        yield (
            f"The fitted state in {_path(config, 'fitted')} may have them as tokens: once the logs lack them, run "
            "`ctr-samples fit --afresh`, then remove what older versions have below `data/` there."
        )
    if config.get("partials"):
        yield (
            f"What is kept of finished days in {_path(config, 'partials')} may have them: once the logs lack them, remove that "
            "directory, and the next run makes it anew."
        )


def _path(config: Mapping[str, Any], section: str) -> str:
    return str(config[section]["path"]) if isinstance(config[section], Mapping) else f"`{section}.path`"


def _vocabularies_of(config: Mapping[str, Any], key: str) -> set[str]:
    features = config.get("features") or {}
    source = _source(config, features.get(key) or {})
    mentioned = re.compile(rf"(?<![\w.]){re.escape(source)}(?!\w)")
    of_users = [feature for feature in features.values() if source and mentioned.search(_source(config, feature))]
    return {feature["vocabulary"] for feature in of_users if feature.get("vocabulary")}


def _source(config: Mapping[str, Any], feature: Mapping[str, Any]) -> str:
    """What a feature is made from, in the words of the log where it names a column of the impression."""
    impressions = config.get("impressions") or {}
    columns = {**impressions, **(impressions.get("keys") or {}), **(impressions.get("columns") or {})}
    text = str(feature.get("from") or feature.get("expr") or "")

    def of_log(found: re.Match[str]) -> str:
        column = columns.get(found[1])
        return column if isinstance(column, str) else found[0]

    return re.sub(r"\bimpression\s*\.\s*`?(\w+)`?", of_log, text).strip()
