"""Examples of impressions at serving time: the same bytes as the job writes, without Spark.

declared.py   declaration of each feature, from the configuration in the manifest
feature_inputs.py    source value of a feature: a column of a row, a part of a map, a time or a list
values.py     values in the record: numbers, ids, crosses, lengths, defaults
hashing.py    hashes of the job
wire.py       joined features by the output layout, and the bytes of the message
assembler.py  everything for one sample set
"""

from ctr_samples.serving.assembler import Assembler, load_assembler

__all__ = ["Assembler", "load_assembler"]
