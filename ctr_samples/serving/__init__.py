"""Build examples at serving time, without Spark, byte for byte as the job writes them.

declared.py   declaration of each feature, from the configuration in the manifest
feature_inputs.py    source value of a feature: a column of a row, a part of a map, a time or a list
pairs.py      values that are made of two sources
values.py     values in the record: numbers, ids, crosses, lengths, defaults
hashing.py    hashes as in the job
wire.py       features in the output layout, and the bytes of the message
assembler.py  assembler for one sample set
"""

from ctr_samples.serving.assembler import Assembler, load_assembler

__all__ = ["Assembler", "load_assembler"]
