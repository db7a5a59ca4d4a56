"""Unions of models: kinds of views or sources, distinguished by the keys of an entry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, Discriminator, Tag

from ctr_samples.config.base import Model
from ctr_samples.config.problems import closest, nearest


class Kind(Model):
    """Base class of the models in a union, with the wording for an entry that mixes the keys of two kinds."""

    thing: ClassVar[str]
    """General term for the kinds: ``view``."""
    kind: ClassVar[str]
    """Name of this kind: ``snapshots``."""
    told_by: ClassVar[str]
    """Reason for treating an entry as this kind, such as ```snapshot` is for snapshots``."""
    instead: ClassVar[Mapping[str, str]] = {}
    """Keys of other kinds, with advice for this kind."""


def keys_of(model: type[BaseModel]) -> list[str]:
    """Return the keys of a model as written in the file."""
    return [field.alias or name for name, field in model.model_fields.items()]


def kinds_of(annotation: Any) -> dict[str, type[Kind]]:
    """Return the models of a union by the tags that pydantic adds to error locations. Empty for other types."""
    if get_origin(annotation) is not Annotated:
        return {}
    union, *_ = get_args(annotation)
    return {tag: model for member in get_args(union) for tag, model in _tagged(member)}


def _tagged(member: Any) -> Iterator[tuple[str, type[Kind]]]:
    """Yield models of a union member, by Tag or by the allowed values of ``format``."""
    if get_origin(member) is Annotated:
        model, *metadata = get_args(member)
        yield from ((part.tag, model) for part in metadata if isinstance(part, Tag))
    elif isinstance(member, type) and issubclass(member, Kind):
        yield from ((name, member) for name in get_args(member.model_fields["format"].annotation))


def told_apart(model_of: Callable[[Mapping[str, Any]], type[Kind]]) -> Discriminator:
    """Return what makes pydantic take the model of a union that ``model_of`` names for an entry."""
    return Discriminator(
        lambda entry: entry.kind if isinstance(entry, Kind) else model_of(entry if isinstance(entry, dict) else {}).kind
    )


def without_absent(
    model_of: Callable[[Mapping[str, Any]], type[Kind] | None], union: Callable[[], Any]
) -> BeforeValidator:
    """Return what removes null or false keys of other kinds: ``static: false`` does not conflict with a snapshot."""

    def removed(entry: Any) -> Any:
        model = model_of(entry) if isinstance(entry, dict) else None
        if model is None:
            return entry
        foreign = {key for kind in kinds_of(union()).values() for key in keys_of(kind)} - set(keys_of(model))
        return {k: v for k, v in entry.items() if k not in foreign or not (v is None or v is False)}

    return BeforeValidator(removed)


def unexpected(key: str, model: type[BaseModel], kinds: Iterable[type[Kind]]) -> str:
    """Describe the problem with an unknown key. ``kinds`` holds all possible models of the entry."""
    if issubclass(model, Model) and key in model.renamed:
        return f"the key `{key}` is called `{model.renamed[key]}` now"
    owners = [kind for kind in kinds if key in keys_of(kind)]
    if issubclass(model, Kind) and owners:
        *others, last = dict.fromkeys(owner.kind for owner in owners)
        whose = f"{', '.join(others)} and {last}," if others else last
        what_to_do = model.instead.get(key, f"a {model.thing} is one of them. Remove one.")
        return f"`{key}` is for {whose} and {model.told_by}; {what_to_do}"
    own = keys_of(model)
    elsewhere = [other for kind in kinds for other in keys_of(kind)]
    valid = own if closest(key, own) or not closest(key, elsewhere) else elsewhere
    return f"unknown key{nearest(key, valid)}"
