"""Labels, which a model predicts: actions after an impression, or values in the impression row."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, field_validator, model_validator

from ctr_samples.config.base import Expression, Name, OneOrMore, after_of, check_said_once, final_of, hint
from ctr_samples.config.kinds import Kind, kinds_of, without_absent
from ctr_samples.config.units import Duration

_INHERITED = "Default, in the impressions' source: the same as there."


class LabelKind(Kind):
    """Base class of the labels: what a model should predict about an impression."""

    thing: ClassVar[str] = "label"

    after: Name | None = Field(
        None,
        description="A 0/1 label that comes first: `after: clicked` for purchases. Positives without it are counted, and the "
        "check `funnel` warns of them.",
    )
    masks: Annotated[tuple[Literal["final", "after"], ...], OneOrMore] = Field(
        (),
        description="Masks to write: `final` adds `<name>__final`, 1 if the label's window had closed by the clock of the run, "
        "so that a 0 stays 0; `after` adds `<name>__after`, 1 if the label that it comes `after` is 1.",
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

    @model_validator(mode="after")
    def _masks_fit(self) -> LabelKind:
        if "after" in self.masks and self.after is None:
            raise ValueError("`masks: after` needs `after`, the label that comes first")
        return self


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

    expr: Expression = Field(
        description="A condition, or an integer that is 0 or 1, over the impressions' source; with `dtype: float32` a number."
    )
    dtype: Literal["int64", "float32"] = Field(
        "int64",
        description="`int64`: 0 or 1, and 0 where `expr` is null; `float32`: a number, and a mask `<name>__mask` that is 0 "
        "where it is null.",
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
    """An action after an impression that a model should predict."""

    kind: ClassVar[str] = "labels of actions"
    told_by: ClassVar[str] = "`source` is for labels of actions"
    instead: ClassVar = {"expr": "say with `where` which rows are these actions instead."}

    source: Name = Field(
        description="A name under `sources`.",
        json_schema_extra=hint("a label that the impression's own row holds says `expr` instead"),
    )
    where: Expression | None = Field(None, description="Which rows are these actions.")
    window: Duration = Field(description="How long after the impression an action still counts (inclusive).")
    time: Expression | None = Field(
        None, description=f"When the action happened. {_INHERITED} Required in any other source."
    )
    user: Expression | None = Field(
        None, description=f"The user's key. {_INHERITED} In any other source: no match by user."
    )
    article: Expression | None = Field(
        None, description=f"The article's key. {_INHERITED} Required in any other source."
    )
    request: Expression | None = Field(
        None, description=f"The request's id. {_INHERITED} In any other source: no match by request."
    )
    keys: dict[Name, Expression] = Field(
        {},
        description="The action's keys, by the names under `impressions.keys`; `user` and `article` are the same said shorter. "
        f"{_INHERITED}",
    )
    match: tuple[Annotated[tuple[Name, ...], OneOrMore, Field(min_length=1)], ...] | None = Field(
        None,
        min_length=1,
        description="The keys that find an action's impression, tried in order: `[[request, item], [user, item]]`. Default: "
        "the request and what was shown; for actions without a request id the user, or all keys that both have where there is "
        "no user, and what was shown. With `match` written out, an action whose request finds nothing tries the next keys too.",
    )
    skew: Duration = Field(
        timedelta(),
        description="How long before its impression an action may be logged, since clocks disagree; only if no earlier "
        "impression claims it.",
    )
    value: Expression | None = Field(None, description="The number to reduce; required by `sum`, `max` and `first`.")
    reduce: Literal["any", "sum", "max", "first"] = Field(
        "any",
        description="`any`: 1 if there was such an action; the others reduce `value`, and `first` takes that of the earliest "
        "action.",
    )
    orphans: Literal["drop", "quarantine"] = Field(
        "quarantine",
        description="Actions without an impression are counted; `quarantine` also keeps up to 100 of them in the manifest.",
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

    @property
    def is_flag(self) -> bool:
        """Whether the label is 0 or 1."""
        return self.reduce == "any"

    @property
    def matures_after(self) -> timedelta:
        """Length of the `window`."""
        return self.window

    @model_validator(mode="after")
    def _keys_are_said_once(self) -> ActionLabel:
        check_said_once(self, self.keys)
        if "request" in self.keys:
            raise ValueError("found `keys.request`; give the request's id as `request`, beside `keys`")
        return self

    @model_validator(mode="after")
    def _value_fits_reduce(self) -> ActionLabel:
        if self.skew > timedelta(hours=1):
            raise ValueError("found more than 1h in `skew`, expected the few seconds by which clocks disagree")
        if (self.value is None) != (self.reduce == "any"):
            raise ValueError("`reduce: sum`, `max` and `first` need `value`; `reduce: any` takes none")
        return self


def _model_of(label: dict[str, Any]) -> type[LabelKind]:
    return RowLabel if label.get("expr") is not None and label.get("source") is None else ActionLabel


def _tag(label: Any) -> str:
    if isinstance(label, LabelKind):
        return label.kind
    return (_model_of(label) if isinstance(label, dict) else ActionLabel).kind


def _without_absent(label: Any) -> Any:
    return without_absent(label, _model_of(label), kinds_of(Label).values()) if isinstance(label, dict) else label


Label = Annotated[
    Annotated[RowLabel, Tag(RowLabel.kind)] | Annotated[ActionLabel, Tag(ActionLabel.kind)],
    Discriminator(_tag),
    BeforeValidator(_without_absent),
]
"""What a model should predict about an impression."""


def actions_among(labels: Mapping[str, Label]) -> dict[str, ActionLabel]:
    """Return the labels that are made from actions."""
    return {name: label for name, label in labels.items() if isinstance(label, ActionLabel)}
