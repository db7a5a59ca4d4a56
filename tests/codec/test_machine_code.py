"""The kernels' machine code: compiled once, kept safely, loaded without Numba."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ctr_samples.codec import machine_code
from ctr_samples.codec.kernels.compilation import Decoders, Kernels, entries
from ctr_samples.codec.machine_code import being_compiled, cache_directories, digest, load
from ctr_samples.private_directory import private_directory
from ctr_samples.samples.executors import compile_in_background

ENCODE = """
import sys
import pyarrow as pa
from ctr_samples.codec import ExampleEncoder, machine_code
from ctr_samples.contract import ExampleContract, FeatureSpec
compile_kernels = machine_code.compile_kernels
def counted(kind):
    open(sys.argv[1], "a").write("compiled\\n")
    return compile_kernels(kind)
machine_code.compile_kernels = counted
encoded = ExampleEncoder(ExampleContract((FeatureSpec("a", "int64"),))).encode(pa.record_batch({"a": [1, 2, 3]}))
heavy = sorted({"numba", "tensorflow", "pyspark"} & set(sys.modules))
print(len(encoded), encoded.buffer.size, heavy)
"""


def stored(path: Path) -> bytes | None:
    """The machine code in a file, as a process that looks for it would find it."""
    with private_directory(path.parent, create=False) as directory:
        return machine_code.read_code(directory, path.name)


def store(path: Path, code: bytes) -> None:
    with private_directory(path.parent, create=True) as directory:
        machine_code.write_code(directory, path.name, code)


@pytest.fixture
def one_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place for machine code, not made yet; compiling costs nothing."""
    place = tmp_path / "temporary" / "ctr-samples-1000"
    place.parent.mkdir()
    monkeypatch.setattr(machine_code, "cache_directories", lambda: [place])
    monkeypatch.setattr(machine_code, "compile_kernels", lambda kind: b"compiled")
    return place


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
    assert set(results) == {"3 90 []"}


def test_a_cache_that_can_be_read_but_not_written_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = machine_code.machine_code(Kernels)
    store(tmp_path / f"kernels-{digest()}.o", code)
    monkeypatch.setattr(machine_code, "cache_directories", lambda: [Path("/nonexistent"), tmp_path])
    monkeypatch.setattr(machine_code, "compile_kernels", lambda kind: pytest.fail("compiled although there is a cache"))
    assert machine_code.machine_code(Kernels) == code


def test_without_any_directory_each_process_compiles(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("a file where a directory should be")
    monkeypatch.setattr(machine_code, "cache_directories", lambda: [tmp_path / "file/cache"])
    monkeypatch.setattr(machine_code, "compile_kernels", lambda kind: b"code")
    assert machine_code.machine_code(Kernels) == b"code"
    assert "set CTR_SAMPLES_CACHE_DIR" in caplog.text


def test_the_next_place_serves_where_the_first_cannot_be_written_or_belongs_to_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("a file where a directory should be")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    places = [tmp_path / "file/cache", tmp_path / "open", tmp_path / "ours"]
    monkeypatch.setattr(machine_code, "cache_directories", lambda: places)
    monkeypatch.setattr(machine_code, "compile_kernels", lambda kind: b"compiled")
    machine_code.machine_code(Kernels)
    assert list((tmp_path / "open").iterdir()) == []
    assert stored(tmp_path / "ours" / f"kernels-{digest()}.o") == b"compiled"
    assert "set CTR_SAMPLES_CACHE_DIR" not in caplog.text


@pytest.mark.slow
def test_a_first_command_has_the_kernels_compiled_beside_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CTR_SAMPLES_CACHE_DIR", str(tmp_path / "cache"))
    compiling = compile_in_background()
    assert compiling is not None
    assert compiling.wait() == 0
    kept = {path.name for path in (tmp_path / "cache").glob("*.o")}
    assert kept == {machine_code.file_name(kind) for kind in (Kernels, Decoders)}
    assert compile_in_background() is None


@pytest.mark.parametrize("there", [[], [Kernels], [Decoders]])
def test_what_is_there_already_is_not_compiled_beside_a_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, there: list[type[Kernels | Decoders]]
) -> None:
    started: list[list[str]] = []
    monkeypatch.setenv("CTR_SAMPLES_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("subprocess.Popen", lambda command, **how: started.append(command))
    for kind in there:
        store(tmp_path / machine_code.file_name(kind), b"code")
    compile_in_background()
    assert len(started) == 1
    for kind in (Kernels, Decoders):
        store(tmp_path / machine_code.file_name(kind), b"code")
    assert compile_in_background() is None
    assert len(started) == 1


def test_a_file_that_is_cut_or_altered_or_that_others_may_write_is_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "kernels.o"
    store(path, b"machine code")
    assert stored(path) == b"machine code"
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[:5], b"", whole[:-1] + b"x"):
        path.write_bytes(damaged)
        assert stored(path) is None
    path.write_bytes(whole)
    for mode in (0o666, 0o664, 0o646):
        path.chmod(mode)
        assert stored(path) is None


def test_a_link_a_pipe_or_a_directory_in_the_place_of_the_file_is_neither_loaded_nor_waited_for(tmp_path: Path) -> None:
    store(tmp_path / "elsewhere/kernels.o", b"machine code")
    (tmp_path / "link.o").symlink_to(tmp_path / "elsewhere/kernels.o")
    os.mkfifo(tmp_path / "pipe.o")
    (tmp_path / "directory.o").mkdir()
    for name in ("link.o", "pipe.o", "directory.o"):
        assert stored(tmp_path / name) is None


def test_the_directory_is_made_for_this_user_alone(one_place: Path) -> None:
    before = os.umask(0)
    try:
        machine_code.machine_code(Kernels)
    finally:
        os.umask(before)
    assert one_place.stat().st_mode & 0o777 == 0o700
    assert stored(one_place / f"kernels-{digest()}.o") == b"compiled"
    assert all(not file.stat().st_mode & 0o022 for file in one_place.iterdir())


def test_a_lock_empties_no_file_and_makes_none_behind_a_link(one_place: Path, tmp_path: Path) -> None:
    one_place.mkdir(mode=0o700)
    lock, code = (one_place / f"kernels-{digest()}.o{ending}" for ending in (".lock", ""))
    lock.write_text("content")
    machine_code.machine_code(Kernels)
    assert lock.read_text() == "content"
    precious = tmp_path / "precious"
    precious.write_text("of the victim")
    for target in (precious, tmp_path / "made"):
        lock.unlink()
        lock.symlink_to(target)
        code.unlink(missing_ok=True)
        assert machine_code.machine_code(Kernels) == b"compiled"
    assert precious.read_text() == "of the victim"
    assert not (tmp_path / "made").exists()


def test_a_directory_that_is_a_link_is_not_used(
    one_place: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    target = tmp_path / "target"
    store(target / f"kernels-{digest()}.o", b"planted")
    one_place.symlink_to(target)
    before = sorted(target.iterdir())
    assert machine_code.machine_code(Kernels) == b"compiled"
    assert sorted(target.iterdir()) == before
    assert f"neither loaded from nor stored in {one_place}: it is a symbolic link" in caplog.text
    assert "set CTR_SAMPLES_CACHE_DIR" in caplog.text


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770, 0o702])
def test_a_directory_that_others_may_write_is_not_used(
    one_place: Path, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    store(one_place / f"kernels-{digest()}.o", b"planted")
    one_place.chmod(mode)
    assert machine_code.machine_code(Kernels) == b"compiled"
    assert [path.name for path in one_place.iterdir()] == [f"kernels-{digest()}.o"]
    assert "others can write to it" in caplog.text


def test_a_directory_of_another_user_is_not_used(
    one_place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store(one_place / f"kernels-{digest()}.o", b"planted")
    owner = one_place.stat().st_uid
    if os.geteuid() == 0:
        owner = 4711
        os.chown(one_place, owner, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert machine_code.machine_code(Kernels) == b"compiled"
    assert [path.name for path in one_place.iterdir()] == [f"kernels-{digest()}.o"]
    assert f"it belongs to user {owner}" in caplog.text


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
    assert third.name == f"ctr-samples-{os.geteuid()}"
    monkeypatch.setenv("CTR_SAMPLES_CACHE_DIR", "/mine")
    assert cache_directories() == [Path("/mine")]


def test_loaded_code_has_every_kernel() -> None:
    kernels = load(Kernels, machine_code.machine_code(Kernels))
    assert all(callable(getattr(kernels, name)) for name in entries(Kernels))


def test_kernels_are_being_compiled_as_long_as_a_process_holds_the_lock(one_place: Path) -> None:
    assert not being_compiled(), "no file is there to be locked"
    with private_directory(one_place, create=True) as directory:
        with directory.locked(f"kernels-{digest()}.o.lock"):
            assert being_compiled()
            assert being_compiled(), "asking does not end it"
        assert not being_compiled()
        with directory.locked("kernels-of-others.o.lock"):
            assert not being_compiled()
