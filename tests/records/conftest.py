"""A bucket to read records from."""

from tests.support.bucket_fixtures import s3, s3_server

__all__ = ["s3", "s3_server"]
