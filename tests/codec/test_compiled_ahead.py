"""Kernels compiled ahead for other hosts: loaded where they can run, refused with a sentence elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ctr_samples.codec import compiled_ahead, machine_code
from ctr_samples.codec.compiled_ahead import compile_ahead, default_cpu, read_ahead
from ctr_samples.codec.kernels.compilation import Decoders, Kernels, entries
from ctr_samples.errors import UsageError


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain processor of 2010."""
    features = dict.fromkeys(("sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cx16", "sahf"), True) | {"avx": False}
    monkeypatch.setattr(compiled_ahead.binding, "get_host_cpu_features", lambda: features)
    monkeypatch.setattr(compiled_ahead.binding, "get_host_cpu_name", lambda: "westmere")
    monkeypatch.setattr(compiled_ahead.binding, "get_default_triple", lambda: "x86_64-unknown-linux-gnu")
    monkeypatch.setattr(compiled_ahead.platform, "machine", lambda: "x86_64")


def packed(path: Path, **needs: Any) -> Path:
    known = {"cpu": "x86-64-v2", "triple": "x86_64-unknown-linux-gnu", "features": ["popcnt", "sse4.2"]}
    path.write_bytes(json.dumps(known | needs).encode() + b"\nmachine\ncode")
    return path


@pytest.mark.usefixtures("host")
def test_code_for_an_older_processor_is_loaded_as_it_is(tmp_path: Path) -> None:
    assert read_ahead(packed(tmp_path / "packed")) == b"machine\ncode"


@pytest.mark.usefixtures("host")
def test_a_processor_that_lacks_something_is_refused_with_what_it_lacks(tmp_path: Path) -> None:
    newer = packed(tmp_path / "packed", cpu="x86-64-v3", features=["avx", "avx2", "popcnt"])
    with pytest.raises(
        UsageError, match="are compiled for x86-64-v3, and the processor .* westmere, lacks avx, avx2; pack"
    ):
        read_ahead(newer)


@pytest.mark.usefixtures("host")
def test_another_kind_of_machine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is for aarch64-linux-gnu, and this host is x86_64-unknown-linux-gnu"):
        read_ahead(packed(tmp_path / "packed", triple="aarch64-linux-gnu"))


def test_without_packed_code_there_is_none(tmp_path: Path) -> None:
    assert read_ahead(tmp_path / "packed") is None


def test_packed_code_comes_before_any_that_was_compiled_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = packed(tmp_path / "packed", triple=compiled_ahead.binding.get_default_triple(), features=[])
    monkeypatch.setattr(machine_code, "packed_file", lambda: here)
    assert machine_code.machine_code(Kernels) == b"machine\ncode"


def test_packed_code_of_other_sources_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    before = machine_code.packed_file()
    monkeypatch.setattr(machine_code, "version", lambda package: f"{package} 99")
    assert machine_code.packed_file().parent == before.parent
    assert machine_code.packed_file() != before


@pytest.mark.usefixtures("host")
def test_an_unknown_processor_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="host, x86-64-v2, x86-64-v3, x86-64-v4, but not 'pentium'"):
        compile_ahead("pentium", tmp_path / "packed")


@pytest.mark.usefixtures("host")
def test_another_kind_of_machine_cannot_be_packed_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_ahead.platform, "machine", lambda: "aarch64")
    assert default_cpu() == "host"
    with pytest.raises(UsageError, match="x86-64-v3 cannot be packed on aarch64; use `--cpu host`"):
        compile_ahead("x86-64-v3", tmp_path / "packed")


@pytest.mark.slow
def test_code_that_was_compiled_for_an_older_processor_has_every_kernel(tmp_path: Path) -> None:
    compile_ahead("x86-64-v2" if default_cpu() != "host" else "host", tmp_path / "packed")
    code = read_ahead(tmp_path / "packed")
    assert code is not None
    for kind in (Kernels, Decoders):
        assert all(callable(getattr(machine_code.load(kind, code), name)) for name in entries(kind))
