"""Kernels: functions that Numba compiles to machine code, once on each host.

``table.py`` lists those that Python calls. Only ``machine_code`` imports the others, and only when there is no compiled form
yet.
"""
