"""Two small published sample sets."""

from tests.support.small_day_fixtures import samples, weighted_samples

__all__ = ["samples", "weighted_samples"]
