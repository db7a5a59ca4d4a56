"""Bytes that each feature takes in a record."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from ctr_samples.codec import ExampleEncoder
from ctr_samples.contract import ExampleContract
from ctr_samples.errors import EncodeError

LOOKED_AT = 64
"""Rows of each task whose bytes are counted."""

WHOLE = ""
"""Name of the whole record among those of the features."""


def bytes_of(rows: pa.RecordBatch, contract: ExampleContract) -> dict[str, int]:
    """Return the bytes of each feature in the first rows of a batch, and of their whole records. Empty for layouts that join
    features into one.

    A feature takes what it adds to records of the keys alone. Runs on executors.
    """
    if contract.parts or not rows.num_rows:
        return {}
    few, keys = rows.slice(0, LOOKED_AT), tuple(f for f in contract.features if f.role == "key")

    def size(names: list[str]) -> int:
        specs = tuple(spec for spec in contract.features if spec in keys or spec.name in names)
        encoder = ExampleEncoder(replace(contract, features=specs))
        return len(encoder.encode(few.select([spec.name for spec in specs])).buffer)

    try:
        alone = size([])
        found = {name: size([name]) - alone for name in contract.names("feature")}
        return found | {WHOLE: size(contract.names())}
    except EncodeError:  # the writer says what is wrong
        return {}
