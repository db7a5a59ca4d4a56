"""Kernels compiled ahead for other hosts. ``ctr-samples pack`` adds them next to this module, only in the archive.

If present, no other kernels are loaded. They need no ownership check: anyone who could change them could also change
the modules around them. A processor that lacks an instruction would kill the process silently, so it is rejected before
the kernels are loaded.
"""

from __future__ import annotations

import json
import platform
from pathlib import Path

from llvmlite import binding

from ctr_samples.codec.kernels.compilation import TABLE, compiled
from ctr_samples.errors import UsageError

_V2 = ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave")
_V4 = (*_V3, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")
LEVELS = {"x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4}
"""Levels of the x86-64 ABI. Each key is LLVM's name for a processor with exactly these features."""

HOST = "host"
"""Target name for the processor of this machine."""


def default_cpu() -> str:
    """Return the processor target that almost every machine of this architecture supports."""
    return "x86-64-v3" if platform.machine().lower() in ("x86_64", "amd64") else HOST


def compile_ahead(cpu: str, path: Path) -> None:
    """Write all kernels for ``cpu`` to a file."""
    name, features = _target(cpu)
    flags = ",".join(f"+{feature}" for feature in features)
    code = compiled(TABLE, name, flags)
    needs = {"cpu": name, "triple": binding.get_default_triple(), "features": features}
    path.write_bytes(json.dumps(needs).encode() + b"\n" + code)


def read_ahead(path: Path) -> bytes | None:
    """Read the code that :func:`compile_ahead` wrote, or None if the file does not exist.

    Raises UsageError if the code cannot run on this host.
    """
    try:
        head, _, code = path.read_bytes().partition(b"\n")
    except FileNotFoundError:
        return None
    needs = json.loads(head)
    if needs["triple"] != binding.get_default_triple():
        raise UsageError(
            f"The packed environment is for {needs['triple']}, and this host is {binding.get_default_triple()}; run "
            "`ctr-samples pack` on a machine like the executors."
        )
    here = {feature for feature, has in binding.get_host_cpu_features().items() if has}
    if lacking := [feature for feature in needs["features"] if feature not in here]:
        raise UsageError(
            f"The packed kernels are compiled for {needs['cpu']}, and the processor of this host, "
            f"{binding.get_host_cpu_name()}, lacks {', '.join(lacking)}; pack the environment again with an older `--cpu`, "
            "as in `ctr-samples pack --cpu x86-64-v2`."
        )
    return code


def _target(cpu: str) -> tuple[str, list[str]]:
    """Return LLVM's name of a processor, and the features that code for it may use."""
    if cpu == HOST:
        features = binding.get_host_cpu_features()
        return binding.get_host_cpu_name(), sorted(feature for feature, has in features.items() if has)
    if cpu not in LEVELS:
        raise UsageError(f"--cpu is one of {HOST}, {', '.join(LEVELS)}, but not {cpu!r}.")
    if default_cpu() == HOST:
        raise UsageError(f"--cpu {cpu} cannot be packed on {platform.machine()}; use `--cpu {HOST}`.")
    return cpu, list(LEVELS[cpu])
