"""Randomness by coordinates: each piece of work draws from its own generator, so no draw depends on earlier draws.

A generator is seeded by ``SeedSequence(seed, spawn_key=(stream, *coordinates))``, where the coordinates are the day,
the hour and the piece of the hour. Equal specs thus give equal bytes as long as numpy, pyarrow and the kind of
processor stay the same: elsewhere numpy may round the last bit of ``exp`` differently, and a new release may change a
distribution.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """Purpose of the numbers; never renumber, the output of every seed would change."""

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


def generator(seed: int, stream: Stream, *coordinates: int) -> np.random.Generator:
    """Return the generator for a piece of work."""
    sequence = np.random.SeedSequence(seed, spawn_key=(int(stream), *coordinates))
    return np.random.Generator(np.random.PCG64(sequence))
