"""User actions: prompt or late clicks on impressions, follow-up reads, collects and shares, and orphan clicks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ctr_samples.simulator.feed import ALGORITHMS, Columns, Feed, Impressions, Memory, Piece
from ctr_samples.simulator.spec import SimulationSpec
from ctr_samples.simulator.wall_clock import HOUR, Bools, Floats, Ints

CLICK, READ, COLLECT, SHARE = range(4)
ACTION_NAMES = ("click", "read", "collect", "share")
EMPTY = -1  # read_ms of a line with an empty readTime

MEDIAN_DELAY_S = 25.0
LATEST_CLICK_S = 12 * HOUR
READ_SHARE = 0.8  # of the clicks
COLLECT_SHARE = 0.08
SHARE_SHARE = 0.04
MEDIAN_READ_MS = 20_000.0
LONGEST_READ_MS = 900_000


@dataclass(frozen=True)
class Actions(Columns):
    """One row per click, read, collect or share."""

    time: Ints  # seconds of local time
    user: Ints  # index
    article: Ints  # index
    kind: Ints  # CLICK, READ, COLLECT or SHARE
    read_ms: Ints  # for reads, else EMPTY
    algorithm: Ints  # of the shown list


class Clicks(NamedTuple):
    """Whether each impression is clicked, and the delay of the click, or 0 if there is no click."""

    clicked: Bools
    delay_s: Ints


def draw_clicks(rng: np.random.Generator, spec: SimulationSpec, p_click: Floats) -> Clicks:
    """Draw clicks within the label window with probability ``p_click``. Some of the remaining impressions get a late
    click, at the specified rate.
    """
    chance = rng.random(len(p_click))
    late_odds = spec.late_click_rate / (1.0 - spec.late_click_rate)
    in_window = chance < p_click
    late = ~in_window & (chance < p_click * (1.0 + late_odds))
    seconds = MEDIAN_DELAY_S * np.exp(1.3 * rng.normal(size=len(p_click)))
    prompt_delay = 1 + seconds.astype(np.int64) % spec.label_window_s  # 1 .. label_window_s
    windows = (1.0 - rng.random(len(p_click))) ** -1.2  # Pareto: the median late click is at 2.3 windows
    late_delay = (spec.label_window_s * windows).astype(np.int64)
    late_delay = np.clip(late_delay, spec.label_window_s + 1, LATEST_CLICK_S)
    return Clicks(in_window | late, np.where(in_window, prompt_delay, np.where(late, late_delay, 0)))


def follow_up(rng: np.random.Generator, spec: SimulationSpec, shown: Impressions, clicks: Clicks) -> Actions:
    """Return the clicks and their follow-up actions. A read is logged at its end."""
    rows = np.flatnonzero(clicks.clicked)
    count = len(rows)
    click = Actions(
        time=shown.time[rows] + clicks.delay_s[rows],
        user=shown.user[rows],
        article=shown.article[rows],
        kind=np.full(count, CLICK),
        read_ms=np.full(count, EMPTY),
        algorithm=shown.algorithm[rows],
    )
    read_ms = np.minimum(MEDIAN_READ_MS * np.exp(1.2 * rng.normal(size=count)), LONGEST_READ_MS).astype(np.int64)
    reads = rng.random(count) < READ_SHARE
    empty = rng.random(count) < spec.empty_read_rate
    collects = rng.random(count) < COLLECT_SHARE
    shares = rng.random(count) < SHARE_SHARE
    after = 1 + read_ms // 1000
    parts = [
        click,
        _later(click, READ, after, np.where(empty, EMPTY, read_ms)).take(reads),
        _later(click, COLLECT, after + 2, click.read_ms).take(collects),
        _later(click, SHARE, after + 5, click.read_ms).take(shares),
    ]
    return Actions.together(parts)


def _later(click: Actions, kind: int, after: Ints, read_ms: Ints) -> Actions:
    return Actions(click.time + after, click.user, click.article, np.full(len(click), kind), read_ms, click.algorithm)


def orphan_clicks(rng: np.random.Generator, feed: Feed, piece: Piece, memory: Memory, count: int) -> Actions:
    """Draw up to ``count`` clicks on articles not recently shown to the user, so that no impression can claim them."""
    user = feed.choose_users(rng, count)
    article = feed.choose_articles(rng, user)
    time = rng.integers(piece.begin, piece.end, count)
    slots = memory.slots(user, article)
    free = memory.is_free(slots, time)
    memory.occupy(slots[free], time[free])
    algorithm = rng.integers(1, ALGORITHMS + 1, count)
    return Actions(time, user, article, np.full(count, CLICK), np.full(count, EMPTY), algorithm).take(free)


class Pending:
    """A queue of actions that occur after the piece that caused them."""

    def __init__(self) -> None:
        self._actions = Actions.together([])

    def __len__(self) -> int:
        return len(self._actions)

    def add(self, actions: Actions) -> None:
        """Add actions to the queue."""
        self._actions = Actions.together([self._actions, actions])

    def release(self, end: int) -> Actions:
        """Remove and return all actions before ``end``, in seconds of local time."""
        due = self._actions.time < end
        released, self._actions = self._actions.take(due), self._actions.take(~due)
        return released
