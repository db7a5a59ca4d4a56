"""The kernels' machine code: compiled once, kept safely, loaded without Numba."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ctr_samples.codec import machine_code
from ctr_samples.codec.machine_code import (
    NAMES,
    cache_directories,
    digest,
    load,
    read_file,
    write_file,
)

ENCODE = """
import sys
import pyarrow as pa
from ctr_samples.codec import ExampleEncoder, machine_code
from ctr_samples.contract import ExampleContract, FeatureSpec
compile_kernels = machine_code.compile_kernels
def counted():
    open(sys.argv[1], "a").write("compiled\\n")
    return compile_kernels()
machine_code.compile_kernels = counted
encoded = ExampleEncoder(ExampleContract((FeatureSpec("a", "int64"),))).encode(pa.record_batch({"a": [1, 2, 3]}))
heavy = sorted({"numba", "tensorflow", "pyspark"} & set(sys.modules))
print(len(encoded), encoded.buffer.size, heavy)
"""


def encode_elsewhere(log: Path, **environment: str) -> str:
    """Encode in a fresh process that notes in ``log`` whenever it compiles."""
    run = subprocess.run(
        [sys.executable, "-c", ENCODE, str(log)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


@pytest.mark.slow
def test_processes_that_start_together_compile_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    cache = tmp_path / "cache"
    with ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(encode_elsewhere, log, CTR_SAMPLES_CACHE_DIR=str(cache)) for _ in range(4)]
    results = [run.result() for run in runs]
    assert log.read_text() == "compiled\n"
    assert sum("numba" in result for result in results) == 1
    assert {result.split("[")[0] for result in results} == {"3 90 "}


def test_a_cache_that_can_be_read_but_not_written_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = machine_code.machine_code()
    write_file(tmp_path / f"kernels-{digest()}.o", code)
    monkeypatch.setattr(machine_code, "cache_directories", lambda: [Path("/nonexistent"), tmp_path])
    monkeypatch.setattr(machine_code, "compile_kernels", lambda: pytest.fail("compiled although there is a cache"))
    assert machine_code.machine_code() == code


@pytest.mark.slow
def test_without_any_directory_each_process_compiles(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("a file where a directory should be")
    monkeypatch.setattr(machine_code, "cache_directories", lambda: [blocked / "cache"])
    monkeypatch.setattr(machine_code, "compile_kernels", lambda: b"code")
    assert machine_code.machine_code() == b"code"
    assert "CTR_SAMPLES_CACHE_DIR" in caplog.text


def test_the_next_place_serves_where_the_first_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("a file where a directory should be")
    monkeypatch.setattr(machine_code, "cache_directories", lambda: [blocked / "cache", tmp_path / "second"])
    monkeypatch.setattr(machine_code, "compile_kernels", lambda: b"code")
    machine_code.machine_code()
    assert read_file(tmp_path / "second" / f"kernels-{digest()}.o") == b"code"


def test_a_file_that_is_cut_or_altered_is_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "kernels.o"
    write_file(path, b"machine code")
    assert read_file(path) == b"machine code"
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[:5], b"", whole[:-1] + b"x"):
        path.write_bytes(damaged)
        assert read_file(path) is None


def test_a_file_that_others_may_write_is_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "kernels.o"
    write_file(path, b"machine code")
    path.chmod(0o666)
    assert read_file(path) is None


def test_the_file_is_named_for_all_that_it_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {digest()}
    sources = machine_code.pkgutil.get_data
    for change in (
        lambda: monkeypatch.setattr(machine_code, "version", lambda package: f"{package} 99"),
        lambda: monkeypatch.setattr(machine_code.binding, "get_host_cpu_name", lambda: "another"),
        lambda: monkeypatch.setattr(machine_code.pkgutil, "get_data", lambda p, n: (sources(p, n) or b"") + b"#"),
    ):
        change()
        digest.cache_clear()
        names.add(digest())
        monkeypatch.undo()
    digest.cache_clear()
    assert len(names) == 4


def test_every_kernel_source_is_part_of_the_name() -> None:
    package = Path(machine_code.__file__).parent
    kernels = {("ctr_samples.codec.kernels", p.name) for p in (package / "kernels").glob("*.py")}
    assert kernels - {("ctr_samples.codec.kernels", "__init__.py")} <= set(machine_code.SOURCES)


def test_the_places_are_tried_in_the_documented_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CTR_SAMPLES_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    first, second, third = cache_directories()
    assert first.name == "__pycache__"
    assert second == Path("/caches/ctr-samples")
    assert third.name == f"ctr-samples-{os.getuid()}"
    monkeypatch.setenv("CTR_SAMPLES_CACHE_DIR", "/mine")
    assert cache_directories() == [Path("/mine")]


def test_loaded_code_has_every_kernel() -> None:
    kernels = load(machine_code.machine_code())
    assert all(callable(getattr(kernels, name)) for name in NAMES)
