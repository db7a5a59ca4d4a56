"""Simulator clock: int64 seconds of local time since 1970-01-01 00:00:00 local time in Shanghai.

Logs contain local times as text, tables contain UTC timestamps. Shanghai has used UTC+8 all year since 1992, so a
constant offset converts between the two.
"""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

HOUR = 3_600
DAY = 86_400
UTC_OFFSET = 8 * HOUR
INSTANT = pa.timestamp("us", tz="UTC")

_EPOCH = date(1970, 1, 1)
_CLOCK_TEXTS = pa.array([f" {s // HOUR:02d}:{s // 60 % 60:02d}:{s % 60:02d}" for s in range(DAY)])


def wall_midnight(day: date) -> int:
    """Return the local seconds at 00:00 Shanghai time."""
    return (day - _EPOCH).days * DAY


def day_name(wall: int) -> str:
    """Format the Shanghai date of a time as ``YYYY-MM-DD``."""
    return (_EPOCH + timedelta(days=wall // DAY)).isoformat()


def wall_texts(wall: Ints, day: str) -> pa.Array:
    """Format times within ``day`` as ``YYYY-MM-DD HH:MM:SS``."""
    return pc.binary_join_element_wise(pa.scalar(day), _CLOCK_TEXTS.take(pa.array(wall % DAY)), "")


def instants(wall: Ints) -> pa.Array:
    """Convert local seconds to UTC timestamps in microseconds."""
    return pa.array((wall - UTC_OFFSET) * 1_000_000).view(INSTANT)
