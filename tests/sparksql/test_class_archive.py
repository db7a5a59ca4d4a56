"""Spark's classes in a file: written by one run, taken by the next, and never by a JVM that it would kill."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ctr_samples.sparksql.session import java_options

WHOLE = b"\xa8\xab\x0b\xf0 and classes"


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The user's cache, with room for archives."""
    monkeypatch.delenv("CTR_SAMPLES_CLASS_ARCHIVE", raising=False)
    monkeypatch.setenv("CTR_SAMPLES_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def java(tmp_path: Path) -> Path:
    """A program whose name and time are all that is looked at."""
    path = tmp_path / "java"
    path.touch()
    return path


def file_of(options: str, option: str) -> Path:
    """The file that an option names."""
    assert options.startswith(f'-XX:{option}="'), options
    return Path(options.split('"')[1])


def recorded(java: Path, content: bytes = WHOLE) -> Path:
    """What a run with this JVM has left behind."""
    path = file_of(java_options(str(java), record=True), "ArchiveClassesAtExit")
    path.write_bytes(content)
    return path


def test_the_second_run_starts_from_what_the_first_one_wrote(place: Path, java: Path) -> None:
    written = recorded(java)
    archive = file_of(java_options(str(java), record=True), "SharedArchiveFile")
    assert archive.read_bytes() == WHOLE
    assert not written.exists()
    assert file_of(java_options(str(java), record=False), "SharedArchiveFile") == archive


def test_a_command_that_is_no_whole_run_writes_nothing(place: Path, java: Path) -> None:
    assert java_options(str(java), record=False) == ""
    assert not place.exists()


def test_an_archive_that_is_being_written_is_not_taken(place: Path, java: Path) -> None:
    recorded(java, bytes(4) + b" and classes")
    assert file_of(java_options(str(java), record=True), "ArchiveClassesAtExit").parent == place


def test_an_archive_that_was_cut_short_is_made_anew(place: Path, java: Path) -> None:
    recorded(java)
    archive = file_of(java_options(str(java), record=True), "SharedArchiveFile")
    archive.write_bytes(WHOLE[:-1])
    file_of(java_options(str(java), record=True), "ArchiveClassesAtExit")
    assert not archive.exists()


def test_another_java_has_an_archive_of_its_own(place: Path, java: Path) -> None:
    recorded(java)
    os.utime(java, (1, 1))
    file_of(java_options(str(java), record=True), "ArchiveClassesAtExit")


def test_an_archive_that_was_not_used_for_long_goes(place: Path, java: Path) -> None:
    for name in ("classes-1234-5.jsa", "classes-1234.5678", "kernels-1234.o"):
        place.mkdir(mode=0o700, exist_ok=True)
        (place / name).touch()
        os.utime(place / name, (1, 1))
    java_options(str(java), record=True)
    assert [path.name for path in place.iterdir()] == ["kernels-1234.o"]


def test_what_others_could_have_written_is_not_taken(place: Path, java: Path) -> None:
    recorded(java).chmod(0o666)
    file_of(java_options(str(java), record=True), "ArchiveClassesAtExit")
    place.chmod(0o777)
    assert java_options(str(java), record=True) == ""


def test_it_can_be_switched_off(place: Path, java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(java)
    monkeypatch.setenv("CTR_SAMPLES_CLASS_ARCHIVE", "off")
    assert java_options(str(java), record=True) == ""


MAPPED = """
import sys
from ctr_samples.sparksql.session import session_of_command
with session_of_command("maps", whole_run=True) as spark:
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
    mapped = [line.split()[-1] for line in open(f"/proc/{jvm}/maps") if ".jsa" in line]
    print("mapped:", *sorted({path for path in mapped if "classes-" in path}), "for", jvm)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_the_jvm_of_the_second_run_has_mapped_the_classes_of_the_first(place: Path) -> None:
    def mapped() -> tuple[str, int]:
        done = subprocess.run([sys.executable, "-c", MAPPED], capture_output=True, text=True, check=True)
        (line,) = (line for line in done.stdout.splitlines() if line.startswith("mapped:"))
        names, _, pid = line.removeprefix("mapped:").partition("for")
        return names.strip(), int(pid)

    names, pid = mapped()
    assert names == ""
    # The JVM writes its classes after the command has ended.
    watch = ["tail", f"--pid={pid}", "-f", "/dev/null"]
    subprocess.run(watch, check=True, timeout=120)
    names, _ = mapped()
    assert Path(names).parent == place
