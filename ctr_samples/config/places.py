"""Places of the file: from the location of an error, as pydantic gives it, to keys and to the model that stands there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, get_args

from pydantic import BaseModel

from ctr_samples.config.job import JobConfig
from ctr_samples.config.kinds import Kind, keys_of, kinds_of, unexpected


@dataclass(frozen=True, slots=True)
class Place:
    """A place of the file, and the type that stands there; ``kinds`` are the models of the union that it was chosen from."""

    where: tuple[str, ...] = ()
    type: Any = JobConfig
    kinds: tuple[type[Kind], ...] = ()

    def below(self, part: int | str) -> Place:
        """One step along the location of an error. Kinds of a union, which pydantic names too, are no keys of the file."""
        kinds = kinds_of(self.type)
        if part in kinds:
            return Place(self.where, kinds[str(part)], tuple(dict.fromkeys(kinds.values())))
        return Place((*self.where, str(part)), _type_below(self.type, str(part))) if _is_key(part) else self

    @property
    def model(self) -> type[BaseModel] | None:
        """The model that stands here; of a union the first."""
        kinds = kinds_of(self.type)
        members = [*kinds.values()] or [self.type, *([] if _is_dict(self.type) else get_args(self.type))]
        return next((m for m in members if isinstance(m, type) and issubclass(m, BaseModel)), None)

    @property
    def keys(self) -> list[str]:
        """The keys that the model here has."""
        return keys_of(self.model) if self.model is not None else []

    def unexpected(self, key: str) -> str:
        """What is wrong with a key that the model here does not have."""
        return unexpected(key, self.model or JobConfig, self.kinds)

    def hint_for(self, key: str) -> str:
        """What the model adds where the key is missing."""
        fields = self.model.model_fields.items() if self.model is not None else ()
        extra = next((field.json_schema_extra for name, field in fields if key in (name, field.alias)), None)
        return f"; {extra['hint']}" if isinstance(extra, dict) and "hint" in extra else ""


def place_of(location: Sequence[int | str]) -> Place:
    """The place that a location leads to."""
    return reduce(Place.below, location, Place())


def _is_key(part: int | str) -> bool:
    # pydantic adds the names of union members and validators to a location; they are no keys of the file.
    return isinstance(part, int) or bool(re.fullmatch(r"\w[\w-]*", part) and not part.startswith("function-"))


def _type_below(annotation: Any, key: str) -> Any:
    if _is_dict(annotation):
        return get_args(annotation)[1]
    model = Place(type=annotation).model
    fields = model.model_fields if model is not None else {}
    return next((field.annotation for name, field in fields.items() if key == (field.alias or name)), None)


def _is_dict(annotation: Any) -> bool:
    return getattr(annotation, "__origin__", None) is dict
