"""The comparison as a document: counts, features, causes. Written as JSON, and read back for trends.

``served.schema.json``, in the same directory, describes the file for other programs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from ctr_samples.typed import typed

SERVED_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Coverage:
    """Samples and served lines that have each other. ``repeated`` counts further lines of an impression, ``without_id`` lines
    without an id. ``why_no_sample`` says for a part of the lines without a sample what became of their impressions. Of lines
    with keys, ``too_far`` are not near in time to any impression of these, and ``tied`` are as near to two.
    """

    samples: int
    served: int
    matched: int
    not_served: int
    no_sample: int
    repeated: int
    without_id: int
    why_no_sample: Mapping[str, int] = field(default_factory=dict)
    too_far: int = 0
    tied: int = 0


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause that explains a ``share`` of the differences of a feature alone. ``rest`` is the share that no cause named before
    explains. ``sentence`` tells what was found and what to do.
    """

    name: str
    share: float
    rest: float
    sentence: str


@dataclass(frozen=True, slots=True)
class Pair:
    """A sample whose served value differs, with both values as text."""

    impression_id: int
    offline: str
    served: str


@dataclass(frozen=True, slots=True)
class Compared:
    """A feature on both sides. The counts add up to the matched samples. ``unexplained`` is the share of differences that no
    cause explains, or None if causes were not sought.
    """

    equal: int
    near: int
    different: int
    only_served: int
    only_offline: int
    by_hour: tuple[tuple[int, int], ...] = ()
    """For each hour of serving: values, and those that differ. Empty if the log has no times."""
    by_age: tuple[tuple[str, int, int], ...] = ()
    """By age of the view's row, of the samples looked at: values, and those that differ."""
    lists: Mapping[str, float] = field(default_factory=dict)
    """Of lists that differ: mean lengths and edits; of vectors: mean and least cosine."""
    pairs: tuple[Pair, ...] = ()
    looked_at: int = 0
    """Differences whose cause was sought."""
    causes: tuple[Cause, ...] = ()
    unexplained: float | None = None

    @property
    def differ(self) -> int:
        """Samples that differ or have a value on one side only."""
        return self.different + self.only_served + self.only_offline

    @property
    def samples(self) -> int:
        """Samples compared."""
        return self.equal + self.near + self.differ

    @property
    def share(self) -> float:
        """Share of the samples that differ."""
        return self.differ / self.samples if self.samples else 0.0


@dataclass(frozen=True, slots=True)
class Proposal:
    """An ``available_after`` for a view with which the samples would agree best, and the agreement of its features.
    ``setting`` is its name in the configuration.
    """

    view: str
    now: str
    available_after: str
    agreement_now: float
    agreement: float
    setting: str = "available_after"


@dataclass(frozen=True, slots=True)
class Served:
    """One comparison of a day."""

    format: int
    name: str
    run_date: str
    generation: int
    run_id: str
    served: str
    created_at: str
    coverage: Coverage
    features: Mapping[str, Compared]
    not_logged: tuple[str, ...]
    """Features that the log does not have."""
    proposals: tuple[Proposal, ...]
    beyond: tuple[str, ...]
    """A sentence for each limit that is exceeded."""

    def to_json(self) -> str:
        """Return the document."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Served:
        """Read a document. Raises ValueError if it is none."""
        return typed(Served, json.loads(text))
