"""``ctr-samples pack``: pack this environment into an archive for ``--archives``: Python, packages, and kernels compiled ahead.

The archive needs only the C library of the host and the libraries that Python's own modules link to, such as OpenSSL.
It omits Spark's jars, since executors already run in Spark, and TensorFlow and pip, which executors do not use.
"""

from __future__ import annotations

import importlib.metadata
import io
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import typer

from ctr_samples.cli.messages import Debug, errors_in_words
from ctr_samples.cli.terminal import say
from ctr_samples.errors import UsageError

_NOT_OF_PYTHON = {"site-packages", "dist-packages", "test", "idlelib", "tkinter", "ensurepip", "turtledemo"}
_NOT_OF_PACKAGES = {"pip", "setuptools", "tensorflow", "keras", "pyspark/jars"}
_VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"

# The interpreter may need its own library; the host's PYTHONHOME would point it to the modules of another Python.
_START = f"""\
#!/bin/sh
home=$(dirname "$(dirname "$(readlink -f "$0")")")
unset PYTHONHOME
LD_LIBRARY_PATH=$home/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}} exec "$home/bin/{_VERSION}" "$@"
"""


_TRIAL = """\
import importlib.metadata, sys
import ctr_samples.job.run, ctr_samples.tfrecord.public, numba, numpy, pyarrow
for name in sys.argv[1:]:
    importlib.metadata.version(name)
"""
"""Program that tests the unpacked archive. It runs no kernel, since the archive may be for another processor."""


def pack(
    output: Annotated[Path, typer.Option(help="The archive to write, a .tar.gz.")] = Path("environment.tar.gz"),
    cpu: Annotated[
        str, typer.Option(help="Oldest processor of the executors: host, x86-64-v2, -v3 or -v4. Default: x86-64-v3.")
    ] = "",
    debug: Debug = False,
) -> None:
    """Write Python, this environment's packages and compiled kernels into one archive for spark-submit --archives."""
    with errors_in_words(debug) as console:
        write_archive(output, cpu)
        console.print(
            f"spark-submit --archives {output}#environment --conf spark.pyspark.python=environment/bin/python ...",
            soft_wrap=True,
        )
        say(output)


def write_archive(output: Path, cpu: str) -> None:
    """Write a complete, tested archive, or nothing. Without ``cpu``, kernels run on almost every machine of this
    architecture.

    Raises UsageError if the archive alone cannot replace this environment.
    """
    from ctr_samples.codec.compiled_ahead import compile_ahead, default_cpu
    from ctr_samples.codec.machine_code import packed_file

    packages = Path(sysconfig.get_path("purelib"))
    kernels = packed_file()
    if not kernels.is_relative_to(packages):
        raise UsageError(
            f"ctr-samples runs from {kernels.parents[2]}, outside of this environment's packages in {packages}; install "
            "its wheel in an environment and run `ctr-samples pack` there."
        )
    if not output.name.endswith((".tar.gz", ".tgz")):
        raise UsageError(f"--output is {output}, but Spark unpacks this archive by its ending; name it *.tar.gz.")
    with tempfile.TemporaryDirectory(dir=output.absolute().parent) as place:
        compiled, archive = Path(place) / "kernels", Path(place) / "archive"
        compile_ahead(cpu or default_cpu(), compiled)
        with tarfile.open(archive, "w:gz", compresslevel=6) as tar:
            _add_python(tar)
            for own in dict.fromkeys((packages, Path(sysconfig.get_path("platlib")))):
                _add(tar, own, f"lib/{_VERSION}/site-packages", _NOT_OF_PACKAGES)
            _add(tar, compiled, f"lib/{_VERSION}/site-packages/{kernels.relative_to(packages)}")
        try_archive(archive, Path(place) / "host")
        archive.replace(output)


def try_archive(archive: Path, host: Path) -> None:
    """Unpack an archive into a new directory and import the job's dependencies there, with an empty environment."""
    with tarfile.open(archive) as tar:
        tar.extractall(host, filter="tar")
    command = [str(host / "bin/python"), "-I", "-c", _TRIAL, *_needed()]
    done = subprocess.run(
        command, cwd=host, env={"PATH": os.defpath}, capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
        raise UsageError(
            f"The archive was not written, since it does not run alone: {said}. This environment takes packages from outside "
            f"of {sysconfig.get_path('purelib')}, as with --system-site-packages or a .pth file; install ctr-samples into an "
            "environment of its own and pack there."
        )


def _needed() -> list[str]:
    """Return the installed requirements of ctr-samples, including extras, except packages that the archive omits."""
    required = (re.split(r"[^\w.-]", text)[0] for text in importlib.metadata.requires("ctr-samples") or ())
    installed = {str(one.name).lower() for one in importlib.metadata.distributions()}
    return sorted({name for name in required if name.lower() in installed} - _NOT_OF_PACKAGES)


def _add_python(tar: tarfile.TarFile) -> None:
    """Add the interpreter with its library and modules, which it locates relative to itself."""
    start = tarfile.TarInfo("bin/python")
    start.size, start.mode = len(_START), 0o755
    tar.addfile(start, io.BytesIO(_START.encode()))
    _add(tar, Path(os.path.realpath(sys.executable)), f"bin/{_VERSION}")
    library = Path(str(sysconfig.get_config_var("LIBDIR")), str(sysconfig.get_config_var("INSTSONAME")))
    if sysconfig.get_config_var("Py_ENABLE_SHARED") and library.exists():
        _add(tar, library.resolve(), f"lib/{library.name}")
    _add(tar, Path(sysconfig.get_path("stdlib")), f"lib/{_VERSION}", _NOT_OF_PYTHON)
    debian = tarfile.TarInfo(f"lib/{_VERSION}/dist-packages")  # where Debian's Python looks for packages
    debian.type, debian.linkname = tarfile.SYMTYPE, "site-packages"
    tar.addfile(debian)


def _add(tar: tarfile.TarFile, source: Path, name: str, left_out: Collection[str] = ()) -> None:
    """Add a file or directory, owned by root and readable by everyone. Skips names in ``left_out``."""

    def kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if entry.name.removeprefix(f"{name}/") in left_out:
            return None
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        entry.mode |= 0o444 if entry.isfile() else 0o555
        return entry

    tar.add(source, name, filter=kept)
