"""Finding and checking the frames of records in a buffer."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ctr_samples.codec.layout import BAD_LENGTH, BAD_MESSAGE, CUT_HEADER, CUT_MESSAGE, SOUND
from ctr_samples.codec.machine_code import kernels
from ctr_samples.errors import DamagedFile

Buffer = bytes | bytearray | memoryview | npt.NDArray[Any]

PROBLEMS = {
    CUT_HEADER: "the bytes end inside a record's header",
    BAD_LENGTH: "a record's length does not match its checksum",
    CUT_MESSAGE: "the bytes end inside a record",
    BAD_MESSAGE: "a record's data do not match their checksum",
}


def frame_offsets(buffer: Buffer) -> npt.NDArray[np.int64]:
    """Where each framed record in ``buffer`` begins, and where the last one ends: int64[records + 1].

    Verifies both checksums of every record and allocates by the records that are there, never by a length that is only
    claimed. Raises DamagedFile with the byte position of the first record that is cut or altered.
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
    """Offsets of the valid frames at the start of ``data``, where they end, and what is wrong there, if anything."""
    offsets = np.zeros(1024, np.int64)
    status = np.zeros(3, np.int64)
    while status[1] < data.size and status[2] == SOUND:
        if status[0] == offsets.size - 1:
            offsets.resize(2 * offsets.size, refcheck=False)
        status[0] = kernels().walk_frames(
            data.ctypes.data, data.size, offsets.ctypes.data, offsets.size - 1, status.ctypes.data
        )
    count, position, wrong = status.tolist()
    offsets.resize(count + 1, refcheck=False)
    return offsets, position, wrong


def as_bytes(buffer: Any) -> npt.NDArray[np.uint8]:
    """Any contiguous buffer as uint8, not copied."""
    view = memoryview(buffer)
    return np.frombuffer(view, np.uint8) if view.nbytes else np.empty(0, np.uint8)
