"""Names that the job gives to columns itself."""

from __future__ import annotations

OWN_COLUMNS = ("impression_id", "impression_time", "request", "position")
"""What every impression has, besides its keys and ``impressions.columns``."""

VIEW_METADATA = ("age_s", "matched")
"""What the as-of join adds to every view."""

HISTORY_COLUMNS = ("items", "ages_s", "length", "matched")
"""What every history has, besides its ``columns``."""

SAMPLE_WEIGHT = "sample_weight"
"""The feature that down-sampling adds."""

RESERVED_FEATURES = ("impression_id", SAMPLE_WEIGHT)
"""Names on the wire that the job writes itself."""

LEGACY_LABEL = "label"
"""What records of the `legacy_121` layout call their label."""


def mask_of(label: str) -> str:
    """The column that says whether a reduced label has a value."""
    return f"{label}__mask"
