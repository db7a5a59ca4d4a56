"""True probability of a click on an impression within the label window.

    p_click = sigmoid(bias + affinity + quality + freshness - position + hour)

Affinity (user's favourites x article's topics) and quality are encoded in the published article vectors, keyword
weights and user histories. Channel, age, position and hour appear directly in logs and tables. The probability depends
on nothing else, so a model with correct joins can approach the best possible AUC, but never exceed it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ctr_samples.simulator.feed import Feed, Impressions, Memory, pieces_of_day, renumbered
from ctr_samples.simulator.spec import RandomStream, SimulationSpec
from ctr_samples.simulator.wall_clock import DAY, HOUR, Floats, wall_midnight
from ctr_samples.simulator.world import FAVOURITES, MOST_TOPICS, World

# Effects on the logit: one standard deviation of affinity or quality, a brand-new article, one position further down
# the list, and half the difference between 9:00 and 21:00.
AFFINITY = 0.9
QUALITY = 0.35
FRESHNESS = 0.4
FRESH_FOR = 2.0 * DAY  # the effect falls to 1/e
POSITION = 0.10
EVENING = 0.15
PILOT_IMPRESSIONS = 40_000


class ClickProbabilities:
    """Click probabilities of a world. A pilot of the first day calibrates the bias to the specified click rate."""

    def __init__(self, spec: SimulationSpec, world: World) -> None:
        self._world = world
        pilot = self._draw_pilot(spec)
        affinity = self._affinity(pilot)
        self._mean, self._deviation = float(affinity.mean()), float(affinity.std()) or 1.0
        self._bias = _bias_for(spec.click_rate, self._effects(pilot))

    def probability(self, shown: Impressions) -> Floats:
        """Return ``p_click`` of each impression."""
        return _sigmoid(self._bias + self._effects(shown))

    def _draw_pilot(self, spec: SimulationSpec) -> Impressions:
        """Draw the first day, or a thinned one, as the simulation does: with its lists, and without what they repeat."""
        spec = replace(spec, impressions=min(spec.impressions, PILOT_IMPRESSIONS))
        memory, users, articles = Memory(spec), self._world.users, self._world.articles
        return renumbered(
            [
                Feed(users, articles, piece.begin, spec.list_size).draw(
                    spec.generator(RandomStream.PILOT, piece.hour, piece.number), piece, memory
                )
                for piece in pieces_of_day(wall_midnight(spec.start), spec.impressions, spec.chunk_impressions)
            ]
        )

    def _effects(self, shown: Impressions) -> Floats:
        articles = self._world.articles
        age = np.maximum(shown.time - articles.published[shown.article], 0)
        effects: Floats = (
            AFFINITY * (self._affinity(shown) - self._mean) / self._deviation
            + QUALITY * articles.quality[shown.article]
            + FRESHNESS * np.exp(-age / FRESH_FOR)
            - POSITION * shown.position
            + EVENING * np.cos((shown.time % DAY - 21 * HOUR) * (2.0 * np.pi / DAY))
        )
        return effects

    def _affinity(self, shown: Impressions) -> Floats:
        """Return the mean similarity of the article's topics to the user's favourites, with 24 lookups per impression."""
        articles, users, similarity = self._world.articles, self._world.users, self._world.topics.similarity
        total = np.zeros(len(shown), np.float64)
        for place in range(MOST_TOPICS):
            topic, share = articles.topics[shown.article, place], articles.mix[shown.article, place]
            for favourite in range(FAVOURITES):
                total += share * similarity[users.favourites[shown.user, favourite], topic]
        return total / FAVOURITES


def _bias_for(click_rate: float, effects: Floats) -> float:
    """Find the bias that yields a mean probability of ``click_rate``, by bisection."""
    low, high = -30.0, 30.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _sigmoid(middle + effects).mean() < click_rate else (low, middle)
    return low


def _sigmoid(logit: Floats) -> Floats:
    probability: Floats = 1.0 / (1.0 + np.exp(-logit))
    return probability
