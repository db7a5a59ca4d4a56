"""Kernels: functions that Numba compiles to machine code, once per host.

Only ``machine_code`` imports them, and only if there is no compiled form yet; ``table.py`` imports none.

table.py                       the kernels that Python calls
compilation.py                 from functions to one object file
encode.py                      rows to framed records
frames.py, checksums.py        the frames of TFRecord
expected.py                    records in the expected form, to columns
decode.py, lists.py, utf8.py   any records to columns
survey.py                      keys of records and their kinds
histories.py                   last actions before each impression
measure.py                     moments and distinct values of a column
wire.py, varint.py             protobuf's wire format
memory.py                      loads and stores at addresses
"""
