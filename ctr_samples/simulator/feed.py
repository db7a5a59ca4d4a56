"""The feed: app visits and shown articles, drawn in time intervals of at most an hour.

The feed shows an article to a user again only after an hour plus the label window has passed since the last impression
and any click on it. Each click therefore has a single possible impression, and labels joined from the logs can equal
the truth exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple, Self

import numpy as np

from ctr_samples.simulator.spec import SimulationSpec
from ctr_samples.simulator.wall_clock import DAY, HOUR, Bools, Ints
from ctr_samples.simulator.world import CHANNELS, FAVOURITES, TOPICS_PER_CHANNEL, Articles, Users, pick

# Relative traffic by hour, Shanghai time: low at night, a small peak at noon, the main peak at 21:00.
HOURLY_TRAFFIC = (18, 10, 6, 4, 4, 7, 18, 34, 46, 50, 50, 52, 64, 58, 48, 46, 46, 50, 58, 68, 80, 86, 70, 40)
LIST_SIZES = np.cumsum([0.14, 0.16, 0.2, 0.2, 0.16, 0.14])  # 1..6 articles
MEAN_LIST_SIZE = 3.5
ALGORITHMS = 9  # C1..C9
PERSONAL_SHARE = 0.6  # impressions drawn from a favoured channel; others depend only on popularity
MOST_ROUNDS = 8


class Piece(NamedTuple):
    """A time interval within an hour, and its number of impressions."""

    hour: int
    number: int
    begin: int  # seconds of local time
    end: int
    impressions: int


def pieces_of_day(midnight: int, impressions: int, chunk: int) -> list[Piece]:
    """Split a day into consecutive pieces within an hour, of at least one second and at most ``chunk`` impressions."""
    return [piece for hour in range(24) for piece in _pieces_of_hour(midnight, hour, impressions, chunk)]


def _pieces_of_hour(midnight: int, hour: int, impressions: int, chunk: int) -> list[Piece]:
    total = sum(HOURLY_TRAFFIC)
    before, upto = (impressions * sum(HOURLY_TRAFFIC[:h]) // total for h in (hour, hour + 1))
    quota = upto - before
    count = min(max(1, -(-quota // chunk)), HOUR)
    begin = midnight + hour * HOUR
    cuts = [(begin + HOUR * i // count, quota * i // count) for i in range(count + 1)]
    return [Piece(hour, i, cuts[i][0], cuts[i + 1][0], cuts[i + 1][1] - cuts[i][1]) for i in range(count)]


@dataclass(frozen=True)
class Columns:
    """Columns of equal length."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def take(self, rows: Ints | Bools) -> Self:
        """Select rows by index or mask."""
        return type(self)(*(getattr(self, column.name)[rows] for column in fields(self)))

    @classmethod
    def together(cls, parts: Sequence[Self]) -> Self:
        """Concatenate the parts, in order."""
        none = np.zeros(0, np.int64)
        return cls(*(np.concatenate([none, *(getattr(part, c.name) for part in parts)]) for c in fields(cls)))


@dataclass(frozen=True)
class Impressions(Columns):
    """One row per impression. Rows of a list are adjacent and sorted by position."""

    list_id: Ints  # 0.. within the piece, ascending
    user: Ints  # index
    article: Ints  # index
    time: Ints  # seconds of local time
    position: Ints  # 0.. within the list
    algorithm: Ints  # 1..9


class Memory:
    """Recently shown pairs: a hash table with the time until which each slot is blocked.

    A blocked slot rejects every pair with that hash, even pairs that were never shown. No entry is overwritten early,
    and memory does not grow during the run.
    """

    def __init__(self, spec: SimulationSpec) -> None:
        busiest_hour = spec.impressions * max(HOURLY_TRAFFIC) / sum(HOURLY_TRAFFIC)
        self._bits = int(np.clip(np.ceil(np.log2(8 * busiest_hour)), 16, 26))
        self._until = np.zeros(1 << self._bits, np.uint32)  # seconds of local time, good until 2106
        self._quiet = HOUR + spec.label_window_s

    def slots(self, user: Ints, article: Ints) -> Ints:
        """Return the slot of each (user, article) pair."""
        key = (user.astype(np.uint64) << np.uint64(32)) | article.astype(np.uint64)
        key = (key ^ (key >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)
        key = (key ^ (key >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
        return (key >> np.uint64(64 - self._bits)).astype(np.int64)

    def is_free(self, slots: Ints, time: Ints) -> Bools:
        """Return a mask of pairs that may be shown: the slot is free, and no earlier pair in the batch uses it."""
        first = np.zeros(len(slots), np.bool_)
        first[np.unique(slots, return_index=True)[1]] = True
        free: Bools = first & (self._until[slots] <= time)
        return free

    def occupy(self, slots: Ints, time: Ints) -> None:
        """Block slots until the quiet time after ``time`` has passed."""
        self._until[slots] = np.maximum(self._until[slots], time + self._quiet).astype(np.uint32)


class Feed:
    """Selects articles during one hour. Popularity decays with age, and only published articles can be shown."""

    def __init__(self, users: Users, articles: Articles, now: int, list_size: int = 0) -> None:
        self._users = users
        self._list_size = list_size
        self._order = np.argsort(articles.channel, kind="stable")
        age = np.maximum(now - articles.published, 0)
        weight = articles.popularity * (0.1 + np.exp(-age / (3.0 * DAY))) * (articles.published <= now)
        self._cumulative = np.concatenate([[0.0], np.cumsum(weight[self._order])])
        bounds = np.searchsorted(articles.channel[self._order], np.arange(1, len(CHANNELS) + 2))
        self._channel_bounds = self._cumulative[bounds]

    def choose_articles(self, rng: np.random.Generator, user: Ints) -> Ints:
        """Draw an article index per row, from a favoured channel or from all articles."""
        favourite = self._users.favourites[user, rng.integers(FAVOURITES, size=len(user))]
        channel = favourite.astype(np.int64) // TOPICS_PER_CHANNEL
        low, high = self._channel_bounds[channel], self._channel_bounds[channel + 1]
        everywhere = (rng.random(len(user)) >= PERSONAL_SHARE) | (high <= low)
        low = np.where(everywhere, 0.0, low)
        high = np.where(everywhere, self._cumulative[-1], high)
        at = np.minimum(low + rng.random(len(user)) * (high - low), np.nextafter(high, low))
        chosen: Ints = self._order[np.searchsorted(self._cumulative, at, side="right") - 1]
        return chosen

    def choose_users(self, rng: np.random.Generator, count: int) -> Ints:
        """Draw user indices weighted by activity."""
        return pick(self._users.activity, rng.random(count))

    def draw(self, rng: np.random.Generator, piece: Piece, memory: Memory) -> Impressions:
        """Draw the impressions of a piece, or fewer if a small world runs out of articles to show."""
        parts: list[Impressions] = []
        missing = piece.impressions
        for _ in range(MOST_ROUNDS):
            if missing == 0:
                break
            lists = int(missing / (self._list_size or MEAN_LIST_SIZE) * 1.1) + 4
            candidates = self.draw_lists(rng, lists, piece.begin, piece.end)
            slots = memory.slots(candidates.user, candidates.article)
            free = np.flatnonzero(memory.is_free(slots, candidates.time))[:missing]
            memory.occupy(slots[free], candidates.time[free])
            parts.append(candidates.take(free))
            missing -= len(free)
        return renumbered(parts)

    def draw_lists(self, rng: np.random.Generator, lists: int, begin: int, end: int) -> Impressions:
        """Draw lists of 1..6 candidates, or of ``list_size``, at random seconds in [begin, end)."""
        size = pick(LIST_SIZES, rng.random(lists)) + 1 if self._list_size == 0 else np.full(lists, self._list_size)
        list_id = np.repeat(np.arange(lists), size)
        user = self.choose_users(rng, lists)[list_id]
        return Impressions(
            list_id=list_id,
            user=user,
            article=self.choose_articles(rng, user),
            time=rng.integers(begin, end, lists)[list_id],
            position=_places_in_runs(list_id),
            algorithm=rng.integers(1, ALGORITHMS + 1, lists)[list_id],
        )


def renumbered(parts: list[Impressions]) -> Impressions:
    """Concatenate the parts, and number lists and positions without gaps."""
    whole = Impressions.together(parts)
    part_id = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    changes = (np.diff(whole.list_id) != 0) | (np.diff(part_id) != 0)
    list_id = np.concatenate([[0], np.cumsum(changes)])[: len(part_id)]
    return replace(whole, list_id=list_id, position=_places_in_runs(list_id))


def _places_in_runs(labels: Ints) -> Ints:
    """Count 0, 1, .. within each run of equal labels."""
    starts = np.flatnonzero(np.concatenate([[True], np.diff(labels) != 0])[: len(labels)])
    lengths = np.diff(np.append(starts, len(labels)))
    return np.arange(len(labels)) - np.repeat(starts, lengths)
