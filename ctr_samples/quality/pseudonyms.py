"""Users and requests under other names in what people pass on: the page, its numbers, and what the manifest samples."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ctr_samples.config import JobConfig

_OF_A_PERSON = re.compile(r"\bimpression\s*\.\s*`?(?:user|request)\b")
_TOLD_BY_VALUE = ("min", "max", "mean", "quantiles", "cdf")


@dataclass(frozen=True, slots=True)
class Pseudonyms:
    """Names made from a digest: equal for equal ids of one salt, so that a user is found again on another day.

    Without a salt that is secret, who can list all ids can also compute their names. ``features`` are those that hold ids.
    """

    salt: str
    features: frozenset[str] = frozenset()

    def of(self, value: Any) -> str | None:
        """The name of an id, whatever its type: ``~1f3a...``; None stays."""
        if value is None:
            return None
        return f"~{hashlib.blake2b(str(value).encode(), key=_key(self.salt), digest_size=8).hexdigest()}"

    def applied(self, metrics: dict[str, Any]) -> dict[str, Any]:
        """A metrics document in which no id of a user or request stands."""
        users = metrics["users"] and {
            **metrics["users"],
            "heaviest": [{**one, "user": self.of(one["user"])} for one in metrics["users"]["heaviest"]],
        }
        features = {
            name: self._column(one) if name in self.features else one for name, one in metrics["features"].items()
        }
        return {**metrics, "users": users, "features": features}

    def in_labels(self, labels: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """What was counted of labels, with other names in the samples of their orphans."""
        return {
            name: {
                **one,
                **({"orphan_sample": [*map(self._orphan, one["orphan_sample"])]} if "orphan_sample" in one else {}),
            }
            for name, one in labels.items()
        }

    def _orphan(self, orphan: Mapping[str, Any]) -> dict[str, Any]:
        return {**orphan, "request": self.of(orphan["request"]), "user": self.of(orphan["user"])}

    def _column(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        splits = {
            name: {
                **one,
                **dict.fromkeys(_TOLD_BY_VALUE),
                "top": one["top"] and [{**entry, "value": self.of(entry["value"])} for entry in one["top"]],
            }
            for name, one in facts["splits"].items()
        }
        return {**facts, "splits": splits}


def pseudonyms_of(config: JobConfig) -> Pseudonyms | None:
    """As a configuration wants them; None where it asks for the ids themselves."""
    if config.output.ids == "raw":
        return None
    return Pseudonyms(config.output.ids_salt or config.name, frozenset(_holding_ids(config)))


def _holding_ids(config: JobConfig) -> list[str]:
    """The features whose values are a user's or request's, as far as the configuration says it; ids of buckets tell nobody."""
    shown = config.impressions
    keys = {f"{name}.{view.key}" for name, view in config.views.items() if view.entity != "article"}
    keys |= {f"impression.{name}" for name, text in shown.columns.items() if text in (shown.user, shown.request)}
    return [
        name
        for name, feature in config.features.items()
        if not feature.makes_ids and (feature.from_ in keys or _OF_A_PERSON.search(feature.from_ or feature.expr or ""))
    ]


def _key(salt: str) -> bytes:
    return hashlib.sha256(salt.encode()).digest()
