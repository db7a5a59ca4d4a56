"""Locate and check record frames in a buffer."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ctr_samples.codec.layout import BAD_LENGTH, BAD_MESSAGE, CUT_HEADER, CUT_MESSAGE, SOUND
from ctr_samples.codec.machine_code import decoders
from ctr_samples.errors import DamagedFile

Buffer = bytes | bytearray | memoryview | npt.NDArray[Any]

PROBLEMS = {
    CUT_HEADER: "the bytes end inside a record's header",
    BAD_LENGTH: "a record's length does not match its checksum",
    CUT_MESSAGE: "the bytes end inside a record",
    BAD_MESSAGE: "a record's data do not match their checksum",
}


def frame_offsets(buffer: Buffer) -> npt.NDArray[np.int64]:
    """Return the start of each framed record in ``buffer``, and the end of the last record, as int64[records + 1].

    Verifies both checksums of every record. Memory depends on the records actually present, never on a length in a
    header. Raises DamagedFile with the byte position of the first record that is truncated or altered.
    """
    data = as_bytes(buffer)
    offsets, position, wrong = scan(data)
    if wrong != SOUND:
        raise DamagedFile(
            f"Record {len(offsets) - 1} at byte {position} of {data.size} is damaged: {PROBLEMS[wrong]}. "
            "Write the file again; nothing after this point can be trusted."
        )
    return offsets


def scan(data: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.int64], int, int]:
    """Return the offsets of the valid frames at the start of ``data``, their end, and the fault there (or SOUND)."""
    walk = Walk(data)
    walk.to(data.size)
    return walk.offsets, walk.position, walk.wrong


class Walk:
    """Finds and checks frames at the start of ``data``, even while ``data`` is still being filled."""

    def __init__(self, data: npt.NDArray[np.uint8]) -> None:
        self._data = data
        self._offsets = np.zeros(1024, np.int64)
        self._status = np.zeros(3, np.int64)

    def to(self, filled: int) -> None:
        """Check the frames within the first ``filled`` bytes, continuing from the last call."""
        self._status[2] = SOUND
        while self._status[1] < filled and self._status[2] == SOUND:
            if self._status[0] == self._offsets.size - 1:
                self._offsets = np.concatenate([self._offsets, np.zeros_like(self._offsets)])
            self._status[0] = decoders().walk_frames(
                self._data.ctypes.data,
                filled,
                self._offsets.ctypes.data,
                self._offsets.size - 1,
                self._status.ctypes.data,
            )

    @property
    def frames(self) -> int:
        """Number of valid frames."""
        return int(self._status[0])

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Start of each valid frame, and the end of the last frame."""
        return self._offsets[: self.frames + 1]

    @property
    def position(self) -> int:
        """End of the valid frames."""
        return int(self._status[1])

    @property
    def wrong(self) -> int:
        """Fault at ``position``; SOUND if no data is left."""
        return int(self._status[2])


def as_bytes(buffer: Any) -> npt.NDArray[np.uint8]:
    """View any contiguous buffer as uint8, without a copy."""
    view = memoryview(buffer)
    return np.frombuffer(view, np.uint8) if view.nbytes else np.empty(0, np.uint8)
