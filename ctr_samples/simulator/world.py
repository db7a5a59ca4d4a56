"""True properties of users and articles, including properties that no published table contains.

Each of the 25 channels has 40 topics. A topic is a point in a space of 32 latent factors, near the center of its
channel. An article mixes one to four topics of its channel; a user favours six topics in up to three channels. The
affinity of a user to an article is the mean similarity of its topics to the user's favourites, which is linear in the
article's factors.

Topics are deliberately fine-grained. A user acts on few articles a day, and thus on few of the 120 topics of the
favoured channels. Profile weights of a shown article's topics therefore leak the click if the profile is newer than the
click. In an older profile, they are a valid but weak signal of the user's taste.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ctr_samples.simulator.spec import RandomStream, SimulationSpec
from ctr_samples.simulator.wall_clock import DAY, Bools, Floats, Ints, wall_midnight

CHANNELS = (
    "html news ios c++ android css database blockchain go product backend linux ai php cloud "
    "architecture frontend python java algorithms interviews security javascript games data"
).split()  # channel id i is CHANNELS[i - 1]; 18 is python
TOPICS_PER_CHANNEL = 40
TOPIC_COUNT = len(CHANNELS) * TOPICS_PER_CHANNEL
WORD_COUNT = 400  # fewer words than topics: channels share topic words
FACTORS = 32
FAVOURITES = 6
MOST_TOPICS = 4
FIRST_ARTICLE_ID = 1_001
ARTICLE_AGE_AT_START = 30 * DAY

_TOPIC_SHARES = (np.arange(TOPICS_PER_CHANNEL) + 1.0) ** -0.5
_TOPIC_CUMULATIVE = np.cumsum(_TOPIC_SHARES) / _TOPIC_SHARES.sum()


@dataclass(frozen=True)
class Topics:
    """All ``TOPIC_COUNT`` topics. Topic t belongs to channel ``t // TOPICS_PER_CHANNEL + 1``."""

    words: list[str]
    keys: list[str]  # "<channel>:<word>", unique
    factors: Floats  # (TOPIC_COUNT, FACTORS), rows of length one
    similarity: npt.NDArray[np.float32]  # (TOPIC_COUNT, TOPIC_COUNT), dot products of the factors
    channel_shares: Floats  # (25,), sums to one; the most popular channel is 18


@dataclass(frozen=True)
class Users:
    """Users 1..n, where index i has user id i + 1."""

    favourites: npt.NDArray[np.int16]  # (n, FAVOURITES) topics, with repetition
    activity: Floats  # (n,) cumulative shares of the traffic
    known: Bools  # (n,) false for cold users, who never get a profile
    gender: npt.NDArray[np.int8]  # (n,) 0 unknown, 1 male, 2 female
    age: npt.NDArray[np.int16]  # (n,) years, -1 unknown
    hot: int  # index of the hot user


@dataclass(frozen=True)
class Articles:
    """Articles of the run, by publication time. Index i has article id ``FIRST_ARTICLE_ID + i``."""

    topics: npt.NDArray[np.int16]  # (n, MOST_TOPICS), distinct; topics beyond topic_count have no share in the mix
    mix: npt.NDArray[np.float32]  # (n, MOST_TOPICS) shares of the topics, each row sums to one
    topic_count: npt.NDArray[np.int8]
    channel: npt.NDArray[np.int8]  # 1..25
    quality: npt.NDArray[np.float32]  # standard normal
    popularity: Floats  # Zipf
    published: Ints  # seconds of local time

    def __len__(self) -> int:
        return len(self.published)

    def factors(self, topics: Topics, rows: slice) -> Floats:
        """Return the latent factors of some articles, shape (rows, FACTORS): weighted means of topic factors."""
        mixed: Floats = np.einsum("at,atf->af", self.mix[rows].astype(np.float64), topics.factors[self.topics[rows]])
        return mixed


@dataclass(frozen=True)
class World:
    """Topics, users and articles, which are the same on all days."""

    topics: Topics
    users: Users
    articles: Articles


def build_world(spec: SimulationSpec) -> World:
    """Draw the world of a spec."""
    topics = _draw_topics(spec)
    return World(topics, _draw_users(spec, topics), _draw_articles(spec, topics))


def pick(cumulative: Floats, uniform: Floats) -> Ints:
    """Map uniform draws to indices by cumulative shares, which end at one."""
    indices: Ints = np.searchsorted(cumulative, uniform, side="right")
    return np.minimum(indices, len(cumulative) - 1)


def _draw_topics(spec: SimulationSpec) -> Topics:
    rng = spec.generator(RandomStream.TOPICS)
    channels = len(CHANNELS)
    centres = np.repeat(_unit_rows(rng.normal(size=(channels, FACTORS))), TOPICS_PER_CHANNEL, axis=0)
    factors = _unit_rows(0.6 * centres + 0.8 * _unit_rows(rng.normal(size=(TOPIC_COUNT, FACTORS))))
    words = [f"w{w:03d}" for _ in range(channels) for w in rng.permutation(WORD_COUNT)[:TOPICS_PER_CHANNEL]]
    keys = [f"{t // TOPICS_PER_CHANNEL + 1}:{word}" for t, word in enumerate(words)]
    shares = rng.permutation(1.0 / (np.arange(channels) + 3.0))
    top, python = int(shares.argmax()), CHANNELS.index("python")
    shares[[top, python]] = shares[[python, top]]
    # einsum sums in a fixed order; a matrix library's order may depend on the number of threads.
    similarity = np.einsum("if,jf->ij", factors, factors).astype(np.float32)
    return Topics(words, keys, factors, similarity, shares / shares.sum())


def _draw_users(spec: SimulationSpec, topics: Topics) -> Users:
    rng = spec.generator(RandomStream.USERS)
    count = spec.users
    channels = pick(np.cumsum(topics.channel_shares), rng.random((count, FAVOURITES // 2)))
    places = pick(_TOPIC_CUMULATIVE, rng.random((count, FAVOURITES)))
    favourites = np.repeat(channels, 2, axis=1) * TOPICS_PER_CHANNEL + places
    known = rng.random(count) >= spec.cold_user_rate
    hot = int(rng.integers(count))
    known[hot] = True
    activity = np.exp(0.7 * rng.normal(size=count))
    activity[hot] = 0.0
    rest = activity.sum() or 1.0
    activity[hot] = rest * spec.hot_user_share / (1.0 - spec.hot_user_share) if count > 1 else 1.0
    return Users(
        favourites=favourites.astype(np.int16),
        activity=np.cumsum(activity) / activity.sum(),
        known=known,
        gender=pick(np.array([0.1, 0.6, 1.0]), rng.random(count)).astype(np.int8),
        age=np.where(rng.random(count) < 0.15, -1, rng.integers(16, 66, count)).astype(np.int16),
        hot=hot,
    )


def _draw_articles(spec: SimulationSpec, topics: Topics) -> Articles:
    rng = spec.generator(RandomStream.ARTICLES)
    published = _publication_times(spec, rng)
    count = len(published)
    channel = pick(np.cumsum(topics.channel_shares), rng.random(count))
    topic_count = pick(np.array([0.3, 0.65, 0.9, 1.0]), rng.random(count)) + 1
    mix = rng.random((count, MOST_TOPICS)) + 0.3
    mix[np.arange(MOST_TOPICS) >= topic_count[:, None]] = 0.0
    return Articles(
        topics=(channel[:, None] * TOPICS_PER_CHANNEL + _distinct_places(rng, count)).astype(np.int16),
        mix=(mix / mix.sum(axis=1, keepdims=True)).astype(np.float32),
        topic_count=topic_count.astype(np.int8),
        channel=(channel + 1).astype(np.int8),
        quality=rng.normal(size=count).astype(np.float32),
        popularity=np.power(rng.permutation(count) + 1.0, -spec.zipf_exponent).astype(np.float64),
        published=published,
    )


def _publication_times(spec: SimulationSpec, rng: np.random.Generator) -> Ints:
    """Draw publication times: ``articles`` in the thirty days before the start, then ``new_article_rate`` daily."""
    start = wall_midnight(spec.start)
    before = rng.integers(start - ARTICLE_AGE_AT_START, start, spec.articles)
    after = rng.integers(start, start + spec.days * DAY, round(spec.articles * spec.new_article_rate * spec.days))
    return np.sort(np.concatenate([before, after]))


def _distinct_places(rng: np.random.Generator, count: int) -> Ints:
    """Draw ``MOST_TOPICS`` distinct topic places per article, by popularity (Gumbel trick), in blocks."""
    places = np.empty((count, MOST_TOPICS), np.int64)
    for first in range(0, count, 50_000):
        block = places[first : first + 50_000]
        scores = np.log(_TOPIC_SHARES) + rng.gumbel(size=(len(block), TOPICS_PER_CHANNEL))
        block[:] = np.argsort(-scores, axis=1)[:, :MOST_TOPICS]
    return places


def _unit_rows(matrix: Floats) -> Floats:
    unit: Floats = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    return unit
