"""Repeated exposures: the app sends a list again within 30 seconds, as on a bad network. Nothing new is shown."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from ctr_samples.simulator.feed import Impressions
from ctr_samples.simulator.wall_clock import DAY, Ints

REPEAT_WITHIN_S = 30


class Repeats(NamedTuple):
    """Columns of equal length: repeated lists, and their delay after the first time (1..29 s)."""

    list_id: Ints
    delay_s: Ints


def draw_repeats(rng: np.random.Generator, rate: float, list_times: Ints) -> Repeats:
    """Repeat a random ``rate`` of the lists, but none across midnight, so that a piece writes to a single day."""
    again = rng.random(len(list_times)) < rate
    delay = rng.integers(1, REPEAT_WITHIN_S, len(list_times))
    list_id = np.flatnonzero(again & (list_times % DAY + delay < DAY))
    return Repeats(list_id, delay[list_id])


def repeated_impressions(shown: Impressions, repeats: Repeats) -> Impressions:
    """Return the impressions of the repeated lists, at their later time."""
    delay_of_list = np.zeros(int(shown.list_id.max(initial=-1)) + 1, np.int64)
    delay_of_list[repeats.list_id] = repeats.delay_s
    delay = delay_of_list[shown.list_id]
    again = shown.take(delay > 0)
    return dataclasses.replace(again, time=again.time + delay[delay > 0])
