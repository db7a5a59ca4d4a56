"""Simulation options, validated on creation, and random generators by coordinates.

Each unit of work has its own generator, so no draw depends on earlier draws. Generators are seeded with
``SeedSequence(seed, spawn_key=(stream, *coordinates))``, where the coordinates are day, hour and piece of the hour. Equal specs
produce equal bytes on equal versions of numpy and pyarrow and equal processor types: other processors may round the last bit of
``exp`` differently, and new numpy releases may change a distribution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date
from enum import IntEnum

import numpy as np

from ctr_samples.errors import UsageError
from ctr_samples.simulator.nights import check_way

IMPRESSIONS_PER_USER = 10  # per day, if ``users`` is 0
MOST_DEFAULT_USERS = 1_000_000  # their profiles are the largest state in memory, about 400 bytes each


class RandomStream(IntEnum):
    """The purpose of a random stream. Renumbering would change the output of every seed."""

    TOPICS = 0
    USERS = 1
    ARTICLES = 2
    KEYWORDS = 3
    VECTORS = 4
    PILOT = 5
    HISTORY = 6
    FEED = 7
    ACTIONS = 8
    LINES = 9


@dataclass(frozen=True, kw_only=True)
class SimulationSpec:
    """Simulation options. Rates are shares between 0 and 1.

    If ``users`` or ``articles`` is 0, it scales with ``impressions``: one user per 10 daily impressions (at most a
    million), and ``20 * sqrt(impressions)`` articles. ``articles`` exist before the first day; the share
    ``new_article_rate`` is added each day. ``chunk_impressions`` limits memory use. Changing it changes the draws.
    """

    start: date = date(2019, 6, 4)
    days: int = 3
    impressions: int = 100_000  # per day, without repeated exposures
    users: int = 0
    articles: int = 0
    seed: int = 0
    click_rate: float = 0.10  # impressions clicked within the label window, on average
    label_window_s: int = 1800
    late_click_rate: float = 0.04  # clicks after the label window
    repeat_rate: float = 0.02  # exposures that the app sends again within 30 s
    cold_user_rate: float = 0.05  # users without any profile
    hot_user_share: float = 0.01  # of all traffic, by a single user
    zipf_exponent: float = 1.0  # of the articles' popularity
    new_article_rate: float = 0.03
    list_size: int = 0  # articles of each list; 0 for 1 to 6
    orphan_click_rate: float = 0.005  # clicks without an impression, relative to attributed clicks
    empty_read_rate: float = 0.03  # reads whose readTime is empty
    malformed_rate: float = 0.0005  # malformed lines, relative to valid lines
    chunk_impressions: int = 250_000
    broken: str = ""  # fault in the logs of the last day, a key of nights.WAYS

    def __post_init__(self) -> None:
        _check_counts(self)
        _check_rates(self)
        if self.broken:
            check_way(self.broken)
        if self.users == 0:
            scaled = min(self.impressions // IMPRESSIONS_PER_USER, MOST_DEFAULT_USERS)
            object.__setattr__(self, "users", max(10, scaled))
        if self.articles == 0:
            object.__setattr__(self, "articles", max(50, int(20 * math.sqrt(self.impressions))))

    def generator(self, stream: RandomStream, *coordinates: int) -> np.random.Generator:
        """Create the generator for a unit of work."""
        sequence = np.random.SeedSequence(self.seed, spawn_key=(int(stream), *coordinates))
        return np.random.Generator(np.random.PCG64(sequence))


def _check_counts(spec: SimulationSpec) -> None:
    lowest = {"days": 1, "impressions": 1, "users": 0, "articles": 0, "seed": 0, "label_window_s": 60}
    lowest |= {"chunk_impressions": 100, "list_size": 0}
    for name, least in lowest.items():
        value = getattr(spec, name)
        if not isinstance(value, int) or value < least:
            raise UsageError(f"{name} is {value!r}; expected a whole number of at least {least}.")
    if spec.label_window_s > 6 * 3600:
        raise UsageError(f"label_window_s is {spec.label_window_s}; expected at most 21600, six hours.")
    if not date(1992, 1, 1) <= spec.start <= date(2100, 1, 1):  # Shanghai has kept UTC+8 all year since 1992
        raise UsageError(f"start is {spec.start}; expected a day between 1992-01-01 and 2100-01-01.")
    if spec.days > 10_000:
        raise UsageError(f"days is {spec.days}; expected at most 10000.")


def _check_rates(spec: SimulationSpec) -> None:
    highest = {
        "click_rate": 0.5,
        "late_click_rate": 0.5,
        "repeat_rate": 0.5,
        "cold_user_rate": 0.9,
        "hot_user_share": 0.5,
        "zipf_exponent": 3.0,
        "new_article_rate": 1.0,
        "orphan_click_rate": 0.5,
        "empty_read_rate": 1.0,
        "malformed_rate": 0.5,
    }
    for name, most in highest.items():
        value = getattr(spec, name)
        least = 0.001 if name == "click_rate" else 0.0
        if not least <= value <= most:  # also refuses NaN
            raise UsageError(f"{name} is {value!r}; expected a number between {least:g} and {most:g}.")
