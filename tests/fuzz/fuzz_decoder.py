"""Coverage-guided fuzzing of everything that reads bytes it did not write: frames, messages, schema inference.

    python -m tests.fuzz.fuzz_decoder tests/fuzz/corpus -max_total_time=300

needs atheris, which is not a dependency: it has no wheels for every platform. The input is taken as a message, framed
with valid checksums (a fuzzer would never find them), and also as a file. Python code is guided by its coverage; the
compiled kernels have none, so that two thirds of the inputs come from a writer that knows how messages are built. A
crash, or an error that is not ours, is a finding.
"""

from __future__ import annotations

import contextlib
import io
import struct
import sys

import atheris
import numpy as np

from tests.support.wire_messages import altered, odd_message

with atheris.instrument_imports(include=["ctr_samples"]):
    from ctr_samples.codec import ExampleDecoder, RecordReader, SchemaSurvey, frame_offsets
    from ctr_samples.codec.encoder import EncodedBatch
    from ctr_samples.contract import ExampleContract, FeatureSpec
    from ctr_samples.crc32c import crc32c
    from ctr_samples.errors import ContractError, DamagedFile

FEATURES = (
    FeatureSpec("a", "int64", None),
    FeatureSpec("b", "float32", (2,)),
    FeatureSpec("c", "bytes", None),
    FeatureSpec("t", "float32", None, encoding="tensor"),
)
SEQUENCES = (FeatureSpec("s", "int64", None, sequence=True), FeatureSpec("u", "bytes", (), sequence=True))
DECODERS = [
    ExampleDecoder(ExampleContract(FEATURES), strict=False),
    ExampleDecoder(ExampleContract(FEATURES)),
    ExampleDecoder(ExampleContract(FEATURES + SEQUENCES, "sequence_example"), strict=False),
]


def masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def frame(message: bytes) -> bytes:
    length = struct.pack("<Q", len(message))
    return length + masked(length) + message + masked(message)


def mutated(data: bytes, size: int, seed: int) -> bytes:
    """Another input: bytes changed by the fuzzer or by us, or a fresh message as only an odd writer makes it."""
    kind = seed % 3
    if kind == 0:
        return atheris.Mutate(data, size)
    return altered(odd_message(seed) if kind == 1 else data, seed)[:size]


def one_input(data: bytes) -> None:
    framed = np.frombuffer(frame(data), np.uint8)
    for decoder in DECODERS:
        with contextlib.suppress(DamagedFile, ContractError):
            decoder.decode(framed).validate(full=True)
    for record in ("example", "sequence_example"):
        try:
            survey = SchemaSurvey(record)  # type: ignore[arg-type]
            survey.add(EncodedBatch(framed, frame_offsets(framed)))
        except (DamagedFile, ContractError):
            pass
    for compression in ("none", "gzip", "zlib"):
        with contextlib.suppress(DamagedFile):
            list(RecordReader(io.BytesIO(data), compression, largest_content=1 << 20))  # type: ignore[arg-type]


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input, custom_mutator=mutated)
    atheris.Fuzz()
