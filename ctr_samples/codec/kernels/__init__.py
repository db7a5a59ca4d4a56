"""Kernels: functions that Numba compiles to machine code, once on each host.

Only ``machine_code`` imports these modules, and only when there is no compiled form yet.
"""
