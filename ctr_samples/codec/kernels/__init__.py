"""Kernels: functions that Numba compiles to machine code, once per host.

Only ``machine_code`` imports them, and only if they are not compiled yet; ``compilation.py`` imports none of them.

compilation.py                 kernels that Python calls; compiles the functions to one object file, in a process of its own
jit.py                         how Numba compiles them
encode.py                      encodes rows to framed records
frames.py                      TFRecord frames and their checksums
expected.py                    decodes records in the expected form to columns
decode.py, lists.py            decode any records to columns
survey.py                      keys of records and their kinds; well-formed UTF-8
histories.py                   last actions before each impression
hashes.py                      hashes of texts
measure.py                     moments and distinct values of a column
wire.py                        protobuf's wire format
memory.py                      loads and stores at addresses
"""
