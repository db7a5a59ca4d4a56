"""Converts Arrow batches to TFRecord bytes and back. No Spark, no TensorFlow. ``README.md`` here is the contract.

encoder.py, decoder.py      batches to framed records and back
plan.py, conversions.py      encoding plan for each column; column_parts.py extracts parts of structs, maps and vectors
kernel_columns.py, values.py, tensors.py, wire_arrays.py       lists, values and tensors between Arrow and the wire
frames.py, streams.py, deflate.py       frames in a buffer, records in a file, compression
inference.py    infers a contract from data
layout.py       conventions shared by the kernels and their callers
kernels/        the kernels; machine_code.py compiles and loads them, compiled_ahead.py compiles them for other hosts
reference.py    builds the same records with TensorFlow, as the oracle of the tests
"""

from ctr_samples.codec.decoder import ExampleDecoder
from ctr_samples.codec.deflate import Compression
from ctr_samples.codec.encoder import EncodedBatch, ExampleEncoder
from ctr_samples.codec.frames import frame_offsets
from ctr_samples.codec.inference import SchemaSurvey, infer_contract
from ctr_samples.codec.streams import RecordReader, RecordWriter

__all__ = [
    "Compression",
    "EncodedBatch",
    "ExampleDecoder",
    "ExampleEncoder",
    "RecordReader",
    "RecordWriter",
    "SchemaSurvey",
    "frame_offsets",
    "infer_contract",
]
