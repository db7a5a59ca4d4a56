"""Random generators by coordinates: each unit of work has its own generator, so no draw depends on earlier draws.

Generators are seeded with ``SeedSequence(seed, spawn_key=(stream, *coordinates))``, where the coordinates are day, hour
and piece of the hour. Equal specs produce equal bytes on equal versions of numpy and pyarrow and equal processor types:
other processors may round the last bit of ``exp`` differently, and new numpy releases may change a distribution.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np


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


def generator(seed: int, stream: RandomStream, *coordinates: int) -> np.random.Generator:
    """Create the generator for a unit of work."""
    sequence = np.random.SeedSequence(seed, spawn_key=(int(stream), *coordinates))
    return np.random.Generator(np.random.PCG64(sequence))
