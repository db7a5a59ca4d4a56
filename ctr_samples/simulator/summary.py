"""Counts of a simulation, taken while it runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class SimulationSummary:
    """Counts over all days; they equal the contents of the files exactly."""

    days: int
    users: int
    cold_users: int  # without a profile
    hot_user_id: int
    articles: int
    impressions: int  # without repeats
    repeated_impressions: int  # sent again within 30 s
    cold_user_impressions: int  # without repeats, to cold users
    clicks_in_window: int
    late_clicks: int  # after the label window
    orphan_clicks: int  # without an impression
    reads: int
    empty_reads: int  # reads whose readTime is empty
    collects: int
    shares: int
    exposure_lines: int  # lists, repeated ones included
    action_lines: int  # click, read, collect, share
    malformed_lines: int  # besides the two above
    user_profile_rows: int
    article_vector_rows: int
    best_auc: float | None  # of p_click for clicks within the label window, to 1e-4; None without clicks

    @property
    def click_rate(self) -> float:
        """Share of impressions clicked within the label window."""
        return self.clicks_in_window / self.impressions if self.impressions else 0.0


class Tally:
    """Running counts, by the names of the summary."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def add(self, **counts: int) -> None:
        """Increase some counts."""
        for name, count in counts.items():
            self._counts[name] = self._counts.get(name, 0) + int(count)

    def __getitem__(self, name: str) -> int:
        return self._counts.get(name, 0)
