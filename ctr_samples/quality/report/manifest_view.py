"""Fields of a manifest that the page needs. Manifests of :mod:`ctr_samples.shards` have them all; this package imports
none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Shard(Protocol):
    """File of samples."""

    @property
    def split(self) -> str:
        """``train``, ``eval`` or ``test``."""

    @property
    def records(self) -> int:
        """Number of samples."""

    @property
    def bytes(self) -> int:
        """Size in bytes."""


class FeaturesFrom(Protocol):
    """The earlier generation whose features were taken, or could not be."""

    @property
    def described(self) -> str:
        """Where the features come from, in words."""


class Run(Protocol):
    """How the samples of a day were made."""

    @property
    def parent(self) -> str | None:
        """Run of the previous generation."""

    @property
    def fingerprint(self) -> str:
        """Equal for runs that must produce the same samples; empty if that is unknown."""

    @property
    def compression(self) -> str:
        """Compression of each shard as a whole."""

    @property
    def config(self) -> Mapping[str, Any]:
        """Configuration as it was run."""

    @property
    def inputs(self) -> Mapping[str, Mapping[str, Any]]:
        """For each source: ``files``, ``bytes``, ``lines`` and ``malformed`` where counted, and ``missing_days``."""

    @property
    def shards(self) -> Sequence[Shard]:
        """All files."""

    @property
    def labels(self) -> Mapping[str, Mapping[str, Any]]:
        """For each label: ``actions``, ``orphans``, ``delays`` and ``flips``."""

    @property
    def versions(self) -> Mapping[str, str]:
        """Releases of the software that ran."""

    @property
    def features_from(self) -> FeaturesFrom | None:
        """None where no earlier generation came into question."""

    @property
    def plan(self) -> Sequence[str]:
        """How the views were joined."""
