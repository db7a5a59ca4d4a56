"""Root model of the configuration, which describes a whole sample set."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from functools import cache
from typing import ClassVar, Literal
from zoneinfo import available_timezones

from pydantic import Field, field_validator

from ctr_samples.config.base import Model, Name
from ctr_samples.config.feature import Feature, Fitted, Vocabulary
from ctr_samples.config.history import History
from ctr_samples.config.impressions import Impressions, Sampling, Split
from ctr_samples.config.label import Label
from ctr_samples.config.output import KeptPartials, Output
from ctr_samples.config.quality import Quality
from ctr_samples.config.served import Served
from ctr_samples.config.source import Source
from ctr_samples.config.view import CountingView, View
from ctr_samples.graph import Graph

_zones = cache(available_timezones)
"""Cached, because Python reads the whole time zone database on each call."""


class JobConfig(Model):
    """A whole sample set."""

    renamed: ClassVar[Mapping[str, str]] = {"state": "partials"}

    name: str = Field(pattern=r"^[a-z][a-z0-9_-]{0,63}$", description="A short name, for manifests and logs.")
    grain: Literal["day", "hour", "all"] = Field(
        "day",
        description="[What one run makes](operations.md#hours-and-whole-logs): the samples of a day, of an hour, or of "
        "the whole log.",
    )
    timezone: str = Field(description="Zone of days, and of times without a zone, such as Asia/Shanghai.")
    sources: dict[Name, Source] = Field(min_length=1, description="The inputs, by names of your choice.")
    impressions: Impressions = Field(description="What was shown: the grain of a sample.")
    labels: dict[Name, Label] = Field(min_length=1, description="What to predict.")
    views: dict[Name, View] = Field({}, description="The feature tables to join, as of each impression.")
    histories: dict[Name, History] = Field({}, description="The user's last actions before each impression.")
    features: dict[Name, Feature] = Field(min_length=1, description="What a sample holds, in this order.")
    vocabularies: dict[Name, Vocabulary] = Field({}, description="Ids for tokens, by names of your choice.")
    fitted: Fitted | None = Field(None, description="Where vocabularies, moments and quantiles are kept.")
    split: Split = Field(Split(), description="Train, eval and test.")
    sampling: Sampling | None = Field(None, description="Fewer samples to train on.")
    output: Output = Field(description="Where the samples go.")
    from_samples: str | None = Field(
        None,
        description="The output directory of [another sample set](how-to.md#make-a-second-sample-set) of the same logs: a "
        "new day takes from there what is made from the same. Changes no byte of the samples.",
    )
    partials: KeptPartials | None = Field(
        None,
        description="[Partial results](operations.md#long-windows) of finished days, so that long windows cost little. "
        "Change no byte of the samples.",
    )
    quality: Quality = Field(Quality(), description="How much a day may differ from earlier ones.")
    served: Served = Field(Served(), description="The log of what the service served. Changes no byte of the samples.")
    trends: int | None = Field(
        None,
        ge=1,
        le=2000,
        description="How many of the newest days [`_trends.html`](report.md#trends-over-many-days) shows, which each "
        "`generate` writes anew. Without it there is none.",
    )

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        # Java parses the times, and does not know all names without a slash, such as `localtime` or `Factory`.
        if value not in _zones() or not ("/" in value or value in ("UTC", "GMT")):
            raise ValueError("expected a zone of the IANA database, such as UTC or Asia/Shanghai")
        return value

    @property
    def graph(self) -> Graph:
        """What each part reads of the others, found anew at each call."""
        return Graph.of(self.model_dump(by_alias=True))

    @property
    def matures_after(self) -> timedelta:
        """Time from the end of a period until its last label window closes."""
        return max(label.matures_after for label in self.labels.values())

    @property
    def joins_anew(self) -> str | None:
        """Reason why a run cannot reuse earlier features even if only labels have changed, or None if it can."""
        if self.sampling is not None:
            return "`sampling` left out samples by their labels"
        if self.impressions.skip_above is not None:
            return "`skip_above` left out impressions by their labels"
        if self.output.layout == "legacy_121":
            return "the layout legacy_121 has no impression ids"
        if self.looking_up:
            return f"`views.{self.looking_up[0]}.look_up` may see rows that no impression sees"
        return None

    @property
    def looking_up(self) -> tuple[str, ...]:
        """The views with `look_up`."""
        return tuple(name for name, view in self.views.items() if isinstance(view, CountingView) and view.look_up)

    @property
    def request_keys(self) -> tuple[str, ...]:
        """Keys that are equal for the samples that ``output.order`` keeps together, or would by ``order: request``:
        the listed keys or :attr:`request_identity`. ``time`` stands for the time of the impression.
        """
        return tuple(self.output.order) if isinstance(self.output.order, list) else self.request_identity

    @property
    def request_identity(self) -> tuple[str, ...]:
        """Keys that are equal for the impressions of a request, whatever the order: the request id and the user or,
        without ids, :attr:`visit_keys`. Empty if no key tells which impressions form a request.
        """
        user = ("user",) if "user" in self.impressions.entities else ()
        return ("request", *user) if self.impressions.request is not None else self.visit_keys

    def history(self, name: str) -> History:
        """Return a history with the values that it has from ``impressions``, if both come from the same log."""
        history, shown = self.histories[name], self.impressions
        own = {key: getattr(history, key) for key in ("time", "key", "item", "request")}
        own["key"] = history.key or history.user
        if history.source == shown.source:
            item = shown.entities.get(shown.shown_key or "")
            there = {"time": shown.time, "key": shown.entities.get(history.on), "item": item, "request": shown.request}
            own = {key: text or there[key] for key, text in own.items()}
        return history.model_copy(update=own)

    def only(self, features: Collection[str]) -> JobConfig:
        """Return the configuration with some features, the parts of their crosses, and the views and histories they need."""
        needed = set(self.graph.needed(*[f"features.{name}" for name in features]))
        kinds = {
            kind: {name: part for name, part in getattr(self, kind).items() if f"{kind}.{name}" in needed}
            for kind in ("features", "views", "histories")
        }
        return self.model_copy(update=kinds)

    @property
    def measured_key(self) -> str | None:
        """The key of impressions whose shares the check ``heavy_user`` judges, or None if impressions lack it."""
        key = self.quality.heavy_user.key
        return key if key in self.impressions.entities else None

    def order_keeps(self, keys: Iterable[str]) -> bool:
        """Whether ``keys`` are equal for all samples that a list under ``output.order`` keeps together. True without
        a list.
        """
        return not isinstance(self.output.order, list) or {*keys} <= {*self.output.order}

    @property
    def visit_keys(self) -> tuple[str, ...]:
        """Keys that are equal for the impressions of a request without an id: the user and the time. Without a user,
        all keys but the shown item. Empty without such keys.
        """
        shown = self.impressions
        who = [name for name in shown.entities if name != shown.shown_key]
        return (*(["user"] if "user" in who else who), "time") if who else ()

    def reads_days(self, source: str) -> bool:
        """Return whether a run reads some days of a source rather than all of it."""
        return self.grain != "all" and self.sources[source].is_dated
