"""Labels, which a model predicts: actions after an impression, or values in the impression row."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, Tag, field_validator

from ctr_samples.config.base import Expression, Name, OneOrMore, after_of, final_of, hint
from ctr_samples.config.impressions import Impressions
from ctr_samples.config.kinds import Kind, told_apart, without_absent
from ctr_samples.config.units import Duration


class LabelKind(Kind):
    """Base class of the labels: what a model should predict about an impression."""

    thing: ClassVar[str] = "label"

    after: Name | None = Field(
        None,
        description="A 0/1 label that comes first: `after: clicked` for purchases. [The check "
        "`funnel`](training.md#masks-delayed-feedback-and-funnels) warns of positives without it.",
    )
    masks: Annotated[tuple[Literal["final", "after"], ...], OneOrMore] = Field(
        (),
        description="[Masks](training.md#masks-delayed-feedback-and-funnels) to write: `<name>__final`, 1 if the label's "
        "window had closed by the clock of the run; `<name>__after`, 1 if the label that it comes `after` is "
        "1.",
    )

    @property
    def is_flag(self) -> bool:
        """Whether the label is 0 or 1. Any other label is a number, with a mask that says whether it has a value."""
        raise NotImplementedError

    @property
    def matures_after(self) -> timedelta:
        """Time from an impression until its label is known."""
        raise NotImplementedError

    def masks_of(self, name: str) -> list[str]:
        """Return the columns of the ``masks`` of the label with a name."""
        return [{"final": final_of, "after": after_of}[mask](name) for mask in self.masks]


class RowLabel(LabelKind):
    """What the impression's own row says: known at once, unless `known_after` says when."""

    kind: ClassVar[str] = "labels of the row"
    told_by: ClassVar[str] = "`expr` is for labels of the row"
    instead: ClassVar = {
        "where": "write the condition into `expr` instead.",
        "window": "say with `known_after` how long after the impression the label is known instead.",
        "reduce": "the row has one value. Remove it.",
        "value": "give the number as `expr`, with `dtype: float32`, instead.",
    }

    expr: Expression = Field(description="A condition, or an integer that is 0 or 1; with `dtype: float32` a number.")
    dtype: Literal["int64", "float32"] = Field(
        "int64",
        description="`int64`: 0 or 1, and 0 where `expr` is null; `float32`: a number, with a mask `<name>__mask` that is "
        "0 where it is null.",
    )
    known_after: Duration | None = Field(
        None, description="How long after the impression the row has its final value; default: at once."
    )

    @property
    def is_flag(self) -> bool:
        """Whether the label is 0 or 1."""
        return self.dtype == "int64"

    @property
    def matures_after(self) -> timedelta:
        """Value of `known_after`."""
        return self.known_after or timedelta()


class ActionLabel(LabelKind):
    """An action after an impression that a model should predict. In the impressions' source, its `time`, keys and `request` are
    those of the impressions unless you say otherwise. In another source, it matches only by the keys that you give.
    """

    kind: ClassVar[str] = "labels of actions"
    told_by: ClassVar[str] = "`source` is for labels of actions"
    instead: ClassVar = {"expr": "say with `where` which rows are these actions instead."}

    source: Name = Field(
        description="A name under `sources`.",
        json_schema_extra=hint("a label that the impression's own row holds says `expr` instead"),
    )
    where: Expression | None = Field(None, description="Which rows are these actions.")
    window: Duration = Field(description="How long after the impression an action counts (inclusive).")
    time: Expression | None = Field(None, description="When it happened. Required in another source.")
    user: Expression | None = Field(None, description="The same as `keys.user`.")
    article: Expression | None = Field(None, description="The same as `keys.article`; required in another source.")
    request: Expression | None = Field(None, description="The id of its request.")
    keys: dict[Name, Expression] = Field(
        {},
        description="Its keys, by the names under `impressions.keys`.",
    )
    match: tuple[Annotated[tuple[Name, ...], OneOrMore, Field(min_length=1)], ...] | None = Field(
        None,
        min_length=1,
        description="The keys that find an action's impression, tried in order: `[[request, item], [user, item]]`. "
        "Default: the request and what was shown; for actions without a request id the user (or, where there "
        "is none, all keys that both have) and what was shown. Written out, an action whose request finds "
        "nothing tries the next keys too.",
    )
    skew: Duration = Field(
        timedelta(),
        description="How long before its impression an action may be logged, since clocks disagree, if no earlier "
        "impression claims it.",
    )
    value: Expression | None = Field(None, description="The number to reduce, with `sum`, `max` and `first`.")
    reduce: Literal["any", "sum", "max", "first"] = Field(
        "any",
        description="`any`: 1 if there was an action; `first`: the `value` of the earliest.",
    )
    orphans: Literal["drop", "quarantine"] = Field(
        "quarantine",
        description="[Actions without an impression](logs.md#actions-without-an-impression) are counted; `quarantine` "
        "also keeps up to 100 of them in the manifest.",
    )

    @field_validator("orphans", mode="before")
    @classmethod
    def _nothing_is_invented(cls, value: object) -> object:
        if value == "synthesize":
            raise ValueError(
                "expected 'drop' or 'quarantine': an impression made from a click would have no position "
                "and no list, and would always be clicked, so a model would learn to recognise it by what it lacks"
            )
        return value

    def keys_with(self, shown: Impressions) -> dict[str, str]:
        """Return the keys that the action shares with impressions, with their expressions. The request comes last.

        It has those of ``impressions`` if both come from the same log.
        """
        there = shown.keys_and_request
        given = {"user": self.user, "article": self.article, "request": self.request, **self.keys}
        own = {name: text for name, text in given.items() if text is not None}
        of_the_log = there if self.source == shown.source else {}
        return {name: text for name in there if (text := own.get(name) or of_the_log.get(name)) is not None}

    def matches(self, shown: Impressions) -> tuple[tuple[str, ...], ...]:
        """Return the sets of keys that find the action's impression, in the order they are tried. May be empty."""
        if self.match is not None:
            return self.match
        keys, item = self.keys_with(shown), shown.shown_key
        if item is not None and item not in keys:
            return ()
        others = [name for name in keys if name not in (item, "request")]
        tried = [["request"]] if "request" in keys else []
        tried += [["user"] if "user" in others else others] if others else []
        return tuple((*names, *([item] if item is not None else [])) for names in tried)

    @property
    def is_flag(self) -> bool:
        """Whether the label is 0 or 1."""
        return self.reduce == "any"

    @property
    def matures_after(self) -> timedelta:
        """Length of the `window`."""
        return self.window


def _model_of(label: Mapping[str, Any]) -> type[LabelKind]:
    return RowLabel if label.get("expr") is not None and label.get("source") is None else ActionLabel


Label = Annotated[
    Annotated[RowLabel, Tag(RowLabel.kind)] | Annotated[ActionLabel, Tag(ActionLabel.kind)],
    told_apart(_model_of),
    without_absent(_model_of, lambda: Label),
]
"""What a model should predict about an impression."""


def actions_among(labels: Mapping[str, Label]) -> dict[str, ActionLabel]:
    """Return the labels that are made from actions."""
    return {name: label for name, label in labels.items() if isinstance(label, ActionLabel)}
