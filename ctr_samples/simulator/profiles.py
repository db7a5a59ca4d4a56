"""User profiles, updated by the recommender's hourly batch: weights of up to 64 topics per user.

At the end of each hour, the batch adds the user actions of that hour and writes a row for each active user. A
(user, article) pair adds the following weight, divided equally among the article's topics:

    1 / (ln(days + 1) + 1) * (3 * shared + 2 * collected + 5 * clicked + (2 if read_ms > 1000 else 1))

where ``days`` is the number of whole days from action to batch: 0 in an hourly batch, more in the initial history.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ctr_samples.simulator.reactions import CLICK, COLLECT, READ, SHARE, Actions
from ctr_samples.simulator.spec import RandomStream, SimulationSpec
from ctr_samples.simulator.wall_clock import Bools, Floats, Ints
from ctr_samples.simulator.world import FAVOURITES, MOST_TOPICS, TOPIC_COUNT, TOPICS_PER_CHANNEL, Articles, World

PROFILE_TOPICS = 64  # a full profile drops its lightest topics, but no topics of the current batch
HISTORY_TOPICS = 12  # maximum in an initial profile
NO_TOPIC = -1


class Gains(NamedTuple):
    """Weights to add to user topics, as columns of equal length."""

    user: Ints  # ascending
    topic: Ints
    weight: Floats

    def by_users(self, most: int) -> Iterator[Gains]:
        """Split the rows into blocks of at most ``most`` users each."""
        starts = np.flatnonzero(np.diff(self.user, prepend=-1))[::most]
        for begin, end in pairwise([*starts.tolist(), len(self.user)]):
            yield Gains(self.user[begin:end], self.topic[begin:end], self.weight[begin:end])


class ProfileStore:
    """The current topic weights of all users, with ``PROFILE_TOPICS`` slots per user, sorted by topic: 384 bytes."""

    def __init__(self, users: int) -> None:
        self.topics: npt.NDArray[np.int16] = np.full((users, PROFILE_TOPICS), NO_TOPIC, np.int16)
        self.weights: npt.NDArray[np.float32] = np.zeros((users, PROFILE_TOPICS), np.float32)

    def fold(self, gains: Gains) -> Ints:
        """Add the gains. Return the changed users in ascending order."""
        users, row_of_gain = np.unique(gains.user, return_inverse=True)
        row_of_old, slot = np.nonzero(self.topics[users] != NO_TOPIC)
        old_topic = self.topics[users[row_of_old], slot].astype(np.int64)
        old_weight = self.weights[users[row_of_old], slot].astype(np.float64)
        entries = np.concatenate([row_of_old * TOPIC_COUNT + old_topic, row_of_gain * TOPIC_COUNT + gains.topic])
        entry, place = np.unique(entries, return_inverse=True)
        weight = np.bincount(place, np.concatenate([old_weight, gains.weight]), len(entry)).astype(np.float64)
        gained = np.zeros(len(entry), np.bool_)
        gained[place[len(old_topic) :]] = True
        kept = _strongest(entry // TOPIC_COUNT, weight, gained)
        self._replace(users, entry[kept] // TOPIC_COUNT, entry[kept] % TOPIC_COUNT, weight[kept])
        return users

    def _replace(self, users: Ints, row: Ints, topic: Ints, weight: Floats) -> None:
        slot = np.arange(len(row)) - np.searchsorted(row, row)
        self.topics[users] = NO_TOPIC
        self.weights[users] = 0.0
        self.topics[users[row], slot] = topic
        self.weights[users[row], slot] = weight


def _strongest(row: Ints, weight: Floats, gained: Bools) -> Ints:
    """Return the entries that fit into the slots of each row, ascending. Gained entries go first, then the heaviest."""
    order = np.lexsort((-weight, ~gained, row))
    rank = np.arange(len(row)) - np.searchsorted(row, row)
    return np.sort(order[rank < PROFILE_TOPICS])


def gains_of(actions: Actions, articles: Articles, known: Bools) -> Gains:
    """Compute the weights that the actions of one hour add to the profiles of known users."""
    actions = actions.take(known[actions.user])
    pair, place = np.unique(actions.user * len(articles) + actions.article, return_inverse=True)
    count = len(pair)
    clicked, collected, shared = (
        np.bincount(place, actions.kind == kind, count) > 0 for kind in (CLICK, COLLECT, SHARE)
    )
    read_ms = np.bincount(place, np.where(actions.kind == READ, np.maximum(actions.read_ms, 0), 0), count)
    weight = 3.0 * shared + 2.0 * collected + 5.0 * clicked + np.where(read_ms > 1000, 2.0, 1.0)
    return _spread(pair // len(articles), pair % len(articles), weight, articles)


def _spread(user: Ints, article: Ints, weight: Floats, articles: Articles) -> Gains:
    topic_count = articles.topic_count[article].astype(np.int64)
    row, place = np.nonzero(np.arange(MOST_TOPICS) < topic_count[:, None])
    return Gains(user[row], articles.topics[article[row], place].astype(np.int64), (weight / topic_count)[row])


def history_before(spec: SimulationSpec, world: World, users: Ints, block: int) -> Gains:
    """Draw the gains of a block of users over the sixty days before the start.

    A fifth of the users have no topics; each of the other users has 1..12. Half of the topics are favourites. The
    remaining topics are arbitrary topics of a favoured channel.
    """
    rng = spec.generator(RandomStream.HISTORY, block)
    count = np.where(rng.random(len(users)) < 0.2, 0, rng.integers(1, HISTORY_TOPICS + 1, len(users)))
    user = np.repeat(users, count)
    rows = len(user)
    topic = world.users.favourites[user, rng.integers(FAVOURITES, size=rows)].astype(np.int64)
    place = rng.integers(TOPICS_PER_CHANNEL, size=rows)
    elsewhere = topic // TOPICS_PER_CHANNEL * TOPICS_PER_CHANNEL + place
    topic = np.where(rng.random(rows) < 0.5, topic, elsewhere)
    days = rng.integers(1, 61, rows)
    weight = (5.0 + np.where(rng.random(rows) < 0.8, 2.0, 1.0)) / rng.integers(1, MOST_TOPICS + 1, rows)
    return Gains(user, topic, weight / (np.log(days + 1.0) + 1.0))
