"""Write Arrow batches to shards with the codec, in any process."""

from __future__ import annotations

from typing import Any, Literal

from ctr_samples.contract import ExampleContract
from ctr_samples.shards import ShardWriter, Storage


def shard_writer(
    storage: Storage,
    directory: str,
    contract: ExampleContract,
    *,
    compression: Literal["none", "gzip", "zlib"] = "none",
    shard_size: int = 128 * 2**20,
    partition: int = 0,
    attempt: int = 0,
    engine: Literal["native", "tensorflow"] = "native",
) -> ShardWriter:
    """Return a shard writer for batches with the columns of ``contract``.

    Runs in any process; on an executor, once per task attempt. Use it in a ``with`` block, so that open files never
    appear after an error.
    """
    from ctr_samples.codec import RecordWriter

    return ShardWriter(
        storage,
        directory,
        encode=_encoder(contract, engine).encode,
        open_frames=lambda file: RecordWriter(file, compression),
        labels=contract.names("label"),
        partition=partition,
        attempt=attempt,
        compression=compression,
        shard_size=shard_size,
    )


def _encoder(contract: ExampleContract, engine: str) -> Any:
    if engine == "native":
        from ctr_samples.codec import ExampleEncoder

        return ExampleEncoder(contract)
    from ctr_samples.codec.reference import ReferenceEncoder

    return ReferenceEncoder(contract)
