"""Arrow batches to and from TFRecord bytes. No Spark, no TensorFlow. ``README.md`` in this directory is the contract."""

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
