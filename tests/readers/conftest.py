"""Two small published sample sets, and a bucket."""

from tests.support.bucket_fixtures import s3, s3_server
from tests.support.disk_fixtures import unsynced
from tests.support.small_day_fixtures import samples, weighted_samples

__all__ = ["s3", "s3_server", "samples", "unsynced", "weighted_samples"]
