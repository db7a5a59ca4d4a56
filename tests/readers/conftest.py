"""Two small published sample sets."""

from tests.support.disk_fixtures import unsynced
from tests.support.small_day_fixtures import samples, weighted_samples

__all__ = ["samples", "unsynced", "weighted_samples"]
