"""Conventions shared by encoder, decoder and kernels: frames, column matrices and the reasons why kernels stop.

Kernels take int64 only: numbers, and addresses of arrays that the caller keeps alive. A column is one row of an int64
matrix; the classes below name its fields.
"""

from __future__ import annotations

# Frames: length (8 bytes), its checksum (4), the message, its checksum (4).
HEADER = 12
FOOTER = 4

BLOCK = 48
"""Number of rows per block: few enough for the second-level cache, and a multiple of the three concurrent checksums."""
BLOCK_SIZE = 8 * BLOCK

# Possible faults of a frame.
SOUND, CUT_HEADER, BAD_LENGTH, CUT_MESSAGE, BAD_MESSAGE = range(5)

BYTES, FLOAT, INT64 = 1, 2, 3
"""Field number of each list in tf.train.Feature."""

GROUP_SIZE = 24
"""Size of one map of a message, as three int64: tag, first column and column end. A zero tag ends the list."""

KEY_PADDING = bytes(8)
SLACK = 16
"""Bytes after the records that the encoder's kernels may overwrite, since short writes use eight bytes at a time."""


class Encoded:
    """Fields of a column to encode.

    KIND          BYTES, FLOAT or INT64
    STRIDE        values per feature, or -1 if OFFSETS delimits them
    OFFSETS       int64[features + 1]: range of each feature's values
    VALUES        int64 or float32 values, or the bytes delimited by BYTE_OFFSETS
    BYTE_OFFSETS  int64[values + 1]
    VALID         uint8[rows], zero if the key is omitted; no address if every row has the key
    KEY, KEY_SIZE the encoded key field and the tag of the value, ``0A <size> <name> 12``, followed by KEY_PADDING
    STEPS         int64[rows + 1] for a FeatureList: range of each row's features; otherwise a row has one feature
    """

    KIND, STRIDE, OFFSETS, VALUES, BYTE_OFFSETS, VALID, KEY, KEY_SIZE, STEPS = range(9)
    FIELDS = 9


class Decoded:
    """Fields of a column to decode. The fields from FOUND on change while records are read.

    KEY, KEY_SIZE       the feature's name
    KIND                BYTES, FLOAT or INT64
    COUNT               values per feature, or -1 if variable
    REQUIRED            set to reject a record without the feature
    VALUES, VALUE_ROOM  int64 or float32 values (none for bytes), and their capacity
    BYTES_AT, BYTE_ROOM content of bytes values, and its capacity
    BYTE_OFFSETS        int64: end of each bytes value (capacity VALUE_ROOM + 1)
    OFFSETS             int64: end of each feature's values; a feature is a row or a step
    STEPS, STEP_ROOM    for a sequence, int64[rows + 1], and the capacity of OFFSETS in steps
    VALID               uint8[rows]
    SEQUENCE            set if the column is a FeatureList
    FOUND               kind found in the current feature, or 0
    USED, BYTES_USED, STEPS_USED   numbers of values, bytes and steps written
    FIRST, FIRST_BYTE, FIRST_STEP  start of the current row
    STATE               MISSING, PRESENT or MISFIT
    PREFIX, PREFIX_SIZE the encoded key field, ``0A <size> <name>``, followed by KEY_PADDING
    """

    KEY, KEY_SIZE, KIND, COUNT, REQUIRED, VALUES, VALUE_ROOM, BYTES_AT, BYTE_ROOM, BYTE_OFFSETS, OFFSETS = range(11)
    STEPS, STEP_ROOM, VALID, SEQUENCE, FOUND, USED, BYTES_USED, STEPS_USED = range(11, 19)
    FIRST, FIRST_BYTE, FIRST_STEP, STATE, PREFIX, PREFIX_SIZE = range(19, 25)
    FIELDS = 25


class Surveyed:
    """Fields of a key found by the survey, and the two status slots that the survey uses.

    KEY, KEY_SIZE  the key's name
    SEQUENCE       1 if the key was found in the FeatureLists
    KINDS          one bit per kind found: 1 << BYTES, FLOAT or INT64
    FEWEST, MOST   minimum and maximum number of values per feature
    BINARY         1 if any bytes value is not UTF-8
    HASH           hash of the name
    FIRST, NEXT    hash chains of keys, as row number plus 1: FIRST of row ``hash % ROOM`` starts the chain for these
                   hashes, NEXT of a key continues it; 0 ends a chain
    """

    KEY, KEY_SIZE, SEQUENCE, KINDS, FEWEST, MOST, BINARY, HASH, FIRST, NEXT = range(10)
    FIELDS = 10
    USED, ROOM = 1, 2


# Why the decode kernel stopped.
DONE, BROKEN, NEED_VALUES, NEED_BYTES, NEED_STEPS, WRONG_KIND, WRONG_COUNT, ABSENT = range(8)

REASON, COLUMN, DETAIL, OPEN_GROUPS = range(4)
DEEPEST_GROUP = 64
STATUS_SIZE = OPEN_GROUPS + DEEPEST_GROUP
"""Size of the decoder's status: reason, column, a number that depends on the reason, and scratch space for groups."""

FIRST_OF_KEY, ACTION = 1, 2
"""Flags of a row that is an action or an impression: it is the first row of its key; it is an action."""
