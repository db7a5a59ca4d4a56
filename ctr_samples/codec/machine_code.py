"""Kernels as machine code: compiled once per host, then loaded by every process in milliseconds, without Numba.

A packed environment already contains them (``compiled_ahead.py``). Elsewhere the code is cached in a file whose name is
a digest of everything that it depends on: the kernels' source, the versions of Numba and LLVM, the processor. The code
is loaded from, and stored in, the first usable directory of:

1. ``$CTR_SAMPLES_CACHE_DIR``
2. ``__pycache__`` of this package
3. ``$XDG_CACHE_HOME/ctr-samples``, by default ``~/.cache/ctr-samples``
4. ``ctr-samples-<user>`` in the directory for temporary files

A directory or file is usable only if it belongs to this user or root and no other user may write to it; symbolic links
are not followed (``private_directory.py``). One process compiles, under a file lock; processes that start at the same
time wait for it. The kernels that write are compiled apart from those that read, when one of them is first needed.
Run ``python -m ctr_samples.codec`` to compile all in advance, for example during an image build.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import logging
import os
import pkgutil
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from llvmlite import binding

from ctr_samples.codec import kernels as kernel_sources
from ctr_samples.codec.compiled_ahead import read_ahead
from ctr_samples.codec.kernels.compilation import Decoders, Kernel, Kernels, compiled, entries
from ctr_samples.private_directory import NotPrivate, PrivateDirectory, private_directory, user_cache

logger = logging.getLogger(__name__)

_Kind = TypeVar("_Kind", Kernels, Decoders)

SOURCES = (
    ("ctr_samples", "crc32c.py"),
    ("ctr_samples.codec", "layout.py"),
    ("ctr_samples.codec", "machine_code.py"),
    *(("ctr_samples.codec.kernels", f"{module.name}.py") for module in pkgutil.iter_modules(kernel_sources.__path__)),
)

DIGEST_SIZE = 32


@functools.cache
def kernels() -> Kernels:
    """Return the kernels of this process that write. The first call on a host compiles for seconds; later calls load a
    file.

    Runs wherever records are written. If no directory is writable, each process compiles the kernels for itself and logs
    a warning.
    """
    return load(Kernels, machine_code(Kernels))


@functools.cache
def decoders() -> Decoders:
    """Return the kernels of this process that read, as :func:`kernels` does."""
    return load(Decoders, machine_code(Decoders))


def machine_code(kind: type[Kernels | Decoders]) -> bytes:
    """Return an object file with these kernels for this processor: packed, cached, or newly compiled and cached."""
    code = kept_code(kind)
    if code is not None:
        return code
    for path in cache_directories():
        try:
            with private_directory(path, create=True) as directory, directory.locked(_lock(file_name(kind))):
                return _read_or_compile(directory, kind)
        except NotPrivate as error:
            logger.warning("Compiled kernels are neither loaded from nor stored in %s: %s.", path, error)
        except OSError:
            continue
    logger.warning(
        "No directory for compiled kernels; set CTR_SAMPLES_CACHE_DIR to one that you own or that does not exist yet."
    )
    return compile_kernels(kind)


def kept_code(kind: type[Kernels | Decoders]) -> bytes | None:
    """Return the packed or cached object file with these kernels, or None if there is none yet."""
    packed = read_ahead(packed_file())
    if packed is not None:
        return packed
    for path in cache_directories():
        with contextlib.suppress(OSError, NotPrivate), private_directory(path, create=False) as directory:
            if code := read_code(directory, file_name(kind)):
                return code
    return None


def being_compiled() -> bool:
    """Whether any process on this host is compiling the kernels right now."""
    for path in cache_directories():
        with contextlib.suppress(OSError, NotPrivate), private_directory(path, create=False) as directory:
            if any(directory.is_locked(_lock(file_name(kind))) for kind in (Kernels, Decoders)):
                return True
    return False


def file_name(kind: type[Kernels | Decoders]) -> str:
    """Return the name of the cached object file with these kernels."""
    return f"{kind.__name__.lower()}-{digest()}.o"


def _lock(name: str) -> str:
    return f"{name}.lock"


def _read_or_compile(directory: PrivateDirectory, kind: type[Kernels | Decoders]) -> bytes:
    # The previous holder of the lock may have left the file.
    name = file_name(kind)
    code = read_code(directory, name)
    if code is None:
        code = compile_kernels(kind)
        write_code(directory, name, code)
    return code


def compile_kernels(kind: type[Kernels | Decoders]) -> bytes:
    """Compile the kernels for this processor, which takes seconds, and say so."""
    what = "reads" if kind is Decoders else "writes"
    logger.warning("Compiling the code that %s records for this machine. It is kept, so this happens once.", what)
    return compiled(entries(kind), binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten())


def load(kind: type[_Kind], code: bytes) -> _Kind:
    """Load kernels from an object file into memory for execution."""
    engine = _engine()
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return kind(*(_function(engine, name, entry.arguments) for name, entry in entries(kind).items()))


def _engine() -> Any:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(jit=True)
    return binding.create_mcjit_compiler(binding.parse_assembly(""), machine)


def _function(engine: Any, name: str, arguments: int) -> Kernel:
    address = engine.get_function_address(name)
    prototype = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * arguments)
    function: Any = prototype(address)
    function.engine = engine  # the engine owns the code
    return function  # type: ignore[no-any-return]


@functools.cache
def digest() -> str:
    """Return forty hex digits that change whenever the machine code might."""
    return _digest_of(
        binding.get_default_triple(), binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
    )


def packed_file() -> Path:
    """Return the path of kernels compiled ahead, whether or not the file exists. The name depends on the sources."""
    return Path(__file__).parent / f"kernels-{_digest_of()}.packed"


def _digest_of(*parts: str) -> str:
    sum_of_all = hashlib.sha256("\0".join([*parts, version("numba"), version("llvmlite")]).encode())
    for package, name in SOURCES:
        source = pkgutil.get_data(package, name) or b""
        sum_of_all.update(hashlib.sha256(source).digest())
    return sum_of_all.hexdigest()[:40]


def cache_directories() -> list[Path]:
    """Return the candidate directories for the machine code, best first."""
    if os.environ.get("CTR_SAMPLES_CACHE_DIR"):
        return [user_cache()]
    user = os.geteuid() if hasattr(os, "geteuid") else "user"
    return [
        Path(__file__).parent / "__pycache__",
        user_cache(),
        Path(tempfile.gettempdir()) / f"ctr-samples-{user}",
    ]


def read_code(directory: PrivateDirectory, name: str) -> bytes | None:
    """Read machine code if :func:`write_code` wrote it completely and no other user changed it; else None."""
    content = directory.read(name) or b""
    code = content[DIGEST_SIZE:]
    return code if content and hashlib.sha256(code).digest() == content[:DIGEST_SIZE] else None


def write_code(directory: PrivateDirectory, name: str, code: bytes) -> None:
    """Store machine code with its digest. Ignores errors."""
    with contextlib.suppress(OSError):
        directory.replace(name, hashlib.sha256(code).digest() + code)
