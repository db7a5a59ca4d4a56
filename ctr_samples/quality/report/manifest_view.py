"""What the page needs of a manifest. A manifest of :mod:`ctr_samples.shards` has all of it; this package knows none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Shard(Protocol):
    """A file of samples."""

    @property
    def split(self) -> str:
        """``train``, ``eval`` or ``test``."""

    @property
    def records(self) -> int:
        """How many samples it has."""

    @property
    def bytes(self) -> int:
        """Its size."""


class FeaturesFrom(Protocol):
    """The earlier generation whose features were taken, or could not be."""

    @property
    def described(self) -> str:
        """Where the features come from, in words."""


class Run(Protocol):
    """How the samples of a day were made."""

    @property
    def parent(self) -> str | None:
        """The run of the generation before."""

    @property
    def fingerprint(self) -> str:
        """Equal for runs that must give the same samples; empty where that cannot be known."""

    @property
    def compression(self) -> str:
        """Of each shard as a whole."""

    @property
    def config(self) -> Mapping[str, Any]:
        """The configuration as it was run."""

    @property
    def inputs(self) -> Mapping[str, Mapping[str, Any]]:
        """For each source its ``files``, ``bytes``, ``lines`` and ``malformed`` ones, where counted, and ``missing_days``."""

    @property
    def shards(self) -> Sequence[Shard]:
        """All files."""

    @property
    def labels(self) -> Mapping[str, Mapping[str, Any]]:
        """For each label its ``actions``, ``orphans``, ``delays`` and ``flips``."""

    @property
    def versions(self) -> Mapping[str, str]:
        """Releases of what ran."""

    @property
    def features_from(self) -> FeaturesFrom | None:
        """None where no earlier generation came into question."""

    @property
    def plan(self) -> Sequence[str]:
        """How the views were joined."""
