"""Feature tables as published by a recommender: user and article profiles, article vectors, channels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from ctr_samples.simulator.log_files import parquet_writer
from ctr_samples.simulator.profiles import NO_TOPIC, ProfileStore
from ctr_samples.simulator.spec import RandomStream, SimulationSpec
from ctr_samples.simulator.wall_clock import DAY, HOUR, INSTANT, Floats, Ints, instants
from ctr_samples.simulator.world import CHANNELS, FACTORS, FIRST_ARTICLE_ID, MOST_TOPICS, WORD_COUNT, World

VECTOR_LENGTH = 100
TRAINED_AT = 3 * HOUR  # Shanghai time, daily
TRAINING_NOISE = 0.02
ARTICLE_BLOCK = 20_000  # articles per table
MOST_EXTRA_KEYWORDS = 14

WEIGHTS = pa.map_(pa.string(), pa.float64())
USER_PROFILE_SCHEMA = pa.schema(
    [
        ("user_id", pa.int64()),
        ("gender", pa.string()),  # male, female or null
        ("age", pa.int32()),  # years or null
        ("article_partial", WEIGHTS),  # "<channel>:<topic>" -> weight
        ("updated_at", INSTANT),
    ]
)
ARTICLE_VECTOR_SCHEMA = pa.schema(
    [
        ("article_id", pa.int64()),
        ("channel_id", pa.int32()),
        ("articlevector", pa.list_(pa.float64())),  # always 100 numbers
        ("trained_at", INSTANT),
    ]
)
ARTICLE_PROFILE_SCHEMA = pa.schema(
    [
        ("article_id", pa.int64()),
        ("channel_id", pa.int32()),
        ("keywords", WEIGHTS),  # 1..18 words -> weight; the article's topics and extra words
        ("topics", pa.list_(pa.string())),  # 1..4 words
        ("published_at", INSTANT),
    ]
)


def user_profile_table(world: World, store: ProfileStore, users: Ints, updated_at: Ints) -> pa.Table:
    """Return the current profiles of users, given by index. ``updated_at`` is the change time in local seconds."""
    row, slot = np.nonzero(store.topics[users] != NO_TOPIC)
    weights = store.weights[users[row], slot].astype(np.float64)
    keys = pa.array(world.topics.keys).take(pa.array(store.topics[users[row], slot]))
    offsets = np.searchsorted(row, np.arange(len(users) + 1))
    age = world.users.age[users]
    columns = [
        pa.array(users + 1),
        pa.array([None, "male", "female"], pa.string()).take(pa.array(world.users.gender[users])),
        pa.array(age.astype(np.int32), mask=age < 0),
        pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, pa.array(weights)),
        instants(updated_at),
    ]
    return pa.table(columns, schema=USER_PROFILE_SCHEMA)


def article_vector_tables(spec: SimulationSpec, world: World, midnight: int) -> Iterator[pa.Table]:
    """Yield the article vectors trained at 03:00 on a day, in blocks, for all articles published by then.

    A vector is a fixed linear map of the article's 32 latent factors and its quality, plus small noise that changes
    daily.
    """
    articles = world.articles
    image = spec.generator(RandomStream.VECTORS).normal(size=(FACTORS + 1, VECTOR_LENGTH)) / np.sqrt(FACTORS)
    trained = midnight + TRAINED_AT
    count = int(np.searchsorted(articles.published, trained))
    for block in range(0, count, ARTICLE_BLOCK):
        rows = slice(block, min(block + ARTICLE_BLOCK, count))
        latent = np.hstack([articles.factors(world.topics, rows), 0.3 * articles.quality[rows, None]])
        noise = spec.generator(RandomStream.VECTORS, midnight // DAY, block).normal(size=(len(latent), VECTOR_LENGTH))
        vectors: Floats = np.einsum("af,fv->av", latent, image) + TRAINING_NOISE * noise
        offsets = pa.array(np.arange(len(latent) + 1) * VECTOR_LENGTH, pa.int32())
        columns = [
            pa.array(np.arange(rows.start, rows.stop) + FIRST_ARTICLE_ID),
            pa.array(articles.channel[rows].astype(np.int32)),
            pa.ListArray.from_arrays(offsets, pa.array(vectors.ravel())),
            instants(np.full(len(latent), trained)),
        ]
        yield pa.table(columns, schema=ARTICLE_VECTOR_SCHEMA)


def write_channels(folder: Path) -> None:
    """Write ``part-00000.csv`` with a header: id (1..25), name."""
    folder.mkdir()
    lines = ["id,name", *(f"{number},{name}" for number, name in enumerate(CHANNELS, start=1))]
    (folder / "part-00000.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_article_profiles(spec: SimulationSpec, world: World, folder: Path) -> None:
    """Write ``part-00000.parquet`` with all articles of the run. Keyword weights increase with article quality."""
    with parquet_writer(folder / "part-00000.parquet", ARTICLE_PROFILE_SCHEMA) as writer:
        for block in range(0, len(world.articles), ARTICLE_BLOCK):
            rows = slice(block, min(block + ARTICLE_BLOCK, len(world.articles)))
            writer.write_table(_article_profiles(world, rows, spec.generator(RandomStream.KEYWORDS, block)))


def _article_profiles(world: World, rows: slice, rng: np.random.Generator) -> pa.Table:
    articles = world.articles
    count = rows.stop - rows.start
    topics = articles.topics[rows].astype(np.int64)
    topic_count = articles.topic_count[rows].astype(np.int64)
    is_topic = np.arange(MOST_TOPICS) < topic_count[:, None]
    is_extra = np.arange(MOST_EXTRA_KEYWORDS) < rng.integers(0, MOST_EXTRA_KEYWORDS + 1, count)[:, None]
    # Extra words have the prefix "x", so they never equal a topic word. A stride keeps them distinct.
    extras = (rng.integers(WORD_COUNT, size=(count, 1)) + 29 * np.arange(MOST_EXTRA_KEYWORDS)) % WORD_COUNT
    strength = np.exp(0.3 * articles.quality[rows].astype(np.float64))[:, None]
    topic_weights = strength * (0.5 + 2.0 * articles.mix[rows].astype(np.float64))
    extra_weights = strength * 0.4 * rng.random((count, MOST_EXTRA_KEYWORDS))

    words = pa.array(world.topics.words + [f"x{word:03d}" for word in range(WORD_COUNT)])
    present = np.hstack([is_topic, is_extra])
    word_ids = np.hstack([topics, len(world.topics.words) + extras])[present]
    weights = np.hstack([topic_weights, extra_weights])[present]
    columns = [
        pa.array(np.arange(rows.start, rows.stop) + FIRST_ARTICLE_ID),
        pa.array(articles.channel[rows].astype(np.int32)),
        pa.MapArray.from_arrays(_offsets(present.sum(axis=1)), words.take(pa.array(word_ids)), pa.array(weights)),
        pa.ListArray.from_arrays(_offsets(topic_count), words.take(pa.array(topics[is_topic]))),
        instants(articles.published[rows]),
    ]
    return pa.table(columns, schema=ARTICLE_PROFILE_SCHEMA)


def _offsets(lengths: Ints) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
