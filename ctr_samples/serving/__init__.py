"""The example of an impression, made where it is served: the bytes that the job writes, without Spark.

declared.py   what the configuration in the manifest says of each feature
feature_inputs.py    the value that a feature is made from: a column of a row, a part of a map, a time or a list
values.py     from that value to the values in the record: numbers, ids, crosses, lengths, defaults
hashing.py    the hashes of the job
layouts.py    several features in one, as the output's layout has it
wire.py       the bytes of the message
assembler.py  all of it for one sample set
"""

from ctr_samples.serving.assembler import Assembler, load_assembler

__all__ = ["Assembler", "load_assembler"]
