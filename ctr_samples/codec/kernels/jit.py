"""Numba's ``njit`` for functions that only other kernels call: without the wrappers by which Python would call them."""

from __future__ import annotations

import functools

import numba

njit = functools.partial(numba.njit, no_cpython_wrapper=True, no_cfunc_wrapper=True)
