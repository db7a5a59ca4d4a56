"""Protocols for the manifest fields used by the page. Manifests of :mod:`ctr_samples.shards` satisfy them without an
import.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class ShardView(Protocol):
    """A sample file."""

    @property
    def split(self) -> str:
        """``train``, ``eval`` or ``test``."""

    @property
    def records(self) -> int:
        """Number of samples."""

    @property
    def bytes(self) -> int:
        """Size in bytes."""


class FeaturesFromView(Protocol):
    """The decision whether to reuse the features of an earlier generation."""

    @property
    def described(self) -> str:
        """Origin of the features, in words."""


class Run(Protocol):
    """The manifest of a day: the run that wrote the samples, and their origin."""

    @property
    def parent(self) -> str | None:
        """Id of the run that wrote the previous generation."""

    @property
    def fingerprint(self) -> str:
        """A fingerprint that is equal for runs that must produce the same samples. Empty if unknown."""

    @property
    def compression(self) -> str:
        """Compression codec of the shard files."""

    @property
    def config(self) -> Mapping[str, Any]:
        """Configuration of the run."""

    @property
    def inputs(self) -> Mapping[str, Mapping[str, Any]]:
        """Input counts by source: ``files``, ``bytes``, ``missing_days``; ``lines``, ``malformed``, ``repeated`` and
        ``other_days`` if counted.
        """

    @property
    def shards(self) -> Sequence[ShardView]:
        """All sample files."""

    @property
    def labels(self) -> Mapping[str, Mapping[str, Any]]:
        """Counts by label: ``actions``, ``orphans``, ``delays`` and ``flips``."""

    @property
    def tied_repeats(self) -> int | None:
        """Number of repeats that only their content tells from the impression that stays. None if not counted."""

    @property
    def versions(self) -> Mapping[str, str]:
        """Software versions of the run."""

    @property
    def features_from(self) -> FeaturesFromView | None:
        """Earlier generation considered for feature reuse, or None."""

    @property
    def plan(self) -> Sequence[str]:
        """Join plan of the views, in words."""
