"""Times of a served log, in any of the usual forms."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ctr_samples.errors import InputError

_UNITS = ((1e11, 1_000_000), (1e14, 1000), (1e17, 1))
"""Numbers below each limit count seconds, milliseconds, or microseconds since 1970, for times until the year 5000."""


def micros_of(times: pa.ChunkedArray | pa.Array) -> npt.NDArray[np.int64]:
    """Return times as microseconds since 1970. Raises InputError for text without a zone, and for times that are missing."""
    kind = times.type
    if times.null_count:
        raise InputError(f"served.time: {times.null_count:,} served lines have no time; leave them out of the log.")
    if pa.types.is_timestamp(kind):
        if kind.tz is None:
            raise InputError("served.time: the times have no zone; expected instants, such as timestamps in UTC.")
        return np.asarray(times.cast(pa.timestamp("us", "UTC"), safe=False).cast(pa.int64()).to_numpy(), np.int64)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        if not pc.all(pc.match_substring_regex(times, r"^-?\d+(\.\d+)?$")).as_py():
            return _of_text(times)
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise InputError(f"served.time: the column is {kind}; expected times, or numbers since 1970.")
    numbers = np.asarray(times.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)
    largest = float(np.abs(numbers).max(initial=0.0))
    factor = next((factor for limit, factor in _UNITS if largest < limit), None)
    if factor is None:
        raise InputError(f"served.time: {largest:.0f} is no time; expected seconds, ms or µs since 1970.")
    return np.asarray(np.round(numbers * factor), np.int64)


def _of_text(times: pa.ChunkedArray | pa.Array) -> npt.NDArray[np.int64]:
    zoned = pc.match_substring_regex(times, r"(Z|[+-]\d\d:?\d\d)$")
    if not pc.all(zoned).as_py():
        without = times.filter(pc.invert(zoned))[0].as_py()
        raise InputError(f"served.time: {without!r} has no zone; expected one, as in '2019-06-05T10:00:00+08:00'.")
    try:
        found = pc.cast(pc.cast(times, pa.timestamp("ns", "UTC")), pa.timestamp("us", "UTC"), safe=False)
    except pa.ArrowInvalid as error:
        raise InputError(f"served.time: {str(error).splitlines()[0]}; expected ISO 8601.") from None
    return np.asarray(found.cast(pa.int64()).to_numpy(), np.int64)
