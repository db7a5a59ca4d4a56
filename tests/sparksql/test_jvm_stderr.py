"""The stderr of the JVM: the warning of its boot is left out, and nothing else is, whoever dies first."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from ctr_samples.sparksql.session import _FILTER, WARNING
from tests.support.project import PROJECT

LINE = WARNING.encode() + b"\n"
OTHERS = b"Picked up JAVA_TOOL_OPTIONS: -Dx=1\nException\rWARNING: \xff\n\n no end"


def filtered(text: bytes) -> bytes:
    return subprocess.run(["sh", "-c", _FILTER], input=text, capture_output=True, check=True).stdout


def test_only_the_warning_is_left_out() -> None:
    assert filtered(OTHERS.replace(b"Exception", LINE + b"Exception")) == OTHERS


@pytest.mark.parametrize(
    "text",
    [
        b"",
        LINE[:20],
        b"see " + LINE,
        b"\r" + LINE,
        b" " + LINE,
        LINE[:-1] + b", jdk.incubator.foreign\n",
        LINE[:-1] + b"\r\n",
        LINE[:9] + LINE,
        b"\0\xfe\n" * 70_000,
    ],
)
def test_what_only_looks_like_the_warning_is_passed_on(text: bytes) -> None:
    assert filtered(text) == text


START = """
import os, subprocess, sys
from ctr_samples.sparksql.session import jvm_stderr
with jvm_stderr() as stderr:
    writer = subprocess.Popen([os.environ["WITH"], "-c", sys.argv[1]], stderr=stderr, stdin=subprocess.PIPE)
print("filtered" if stderr is not None else "inherited", flush=True)
"""

WRITER = f"""
import os, sys
os.write(2, {LINE!r} + b"first\\n")
sys.stdin.read()
os.write(2, b"last " + b"x" * 200_000 + b"\\n")
"""


def start(end: str = "", before: str = "", **how: Any) -> subprocess.Popen[bytes]:
    """A process that starts a writer, which says its last words when the process has ended; ``end`` is its last line."""
    command = [sys.executable, "-c", f"{before}\n{START}{end}", WRITER]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "WITH": sys.executable}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, **how)


ALL = b"first\nlast " + b"x" * 200_000 + b"\n"


def test_the_last_words_of_a_jvm_arrive_after_the_command_has_ended() -> None:
    assert start(stderr=subprocess.PIPE).communicate()[1] == ALL


@pytest.mark.some(1)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_last_words_of_a_jvm_arrive_after_the_command_was_killed(number: signal.Signals) -> None:
    process = start("sys.stdin.read()", stderr=subprocess.PIPE, stdin=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"filtered\n"
    process.send_signal(number)
    assert process.communicate()[1] == ALL


@pytest.mark.some(1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_to_the_whole_group_does_not_end_the_filter_before_the_jvm(number: signal.Signals) -> None:
    ignoring = (
        f"import signal; signal.signal({int(number)}, signal.SIG_IGN)\n"  # as the JVM and its shutdown hooks would
    )
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = start("sys.stdin.read()", ignoring, start_new_session=True, **pipes)
    assert process.stdout is not None
    process.stdout.readline()
    os.killpg(process.pid, number)
    assert process.communicate()[1] == ALL


def test_a_command_without_stderr_starts_the_jvm_without_one() -> None:
    process = start(stderr=subprocess.PIPE, preexec_fn=lambda: os.close(2))
    said, printed = process.communicate()
    assert (said, printed, process.returncode) == (b"inherited\n", b"", 0)


def test_a_jvm_whose_stderr_nobody_reads_comes_to_its_end() -> None:
    read, write = os.pipe()
    os.close(read)
    process = start("sys.exit(writer.communicate() and writer.returncode)", stderr=write)
    os.close(write)
    assert process.communicate()[0] == b"filtered\n"
    assert process.returncode == 0


def test_where_no_filter_starts_the_jvm_has_the_stderr_of_the_command() -> None:
    process = start(stderr=subprocess.PIPE, before="import os; os.environ['PATH'] = '/nowhere'")
    said, printed = process.communicate()
    assert said == b"inherited\n"
    assert printed == LINE + ALL


SESSION = """
from ctr_samples.sparksql.session import session_of_command
for name in ("first", "second"):  # a command may begin a session again in the JVM that it has
    with session_of_command(name) as spark:
        spark._jvm.java.lang.System.err.println(f"the JVM of {spark.sparkContext.appName}")
        spark._jvm.java.lang.System.out.println(f"no result of {spark.sparkContext.appName}")
print("the result")
"""


@pytest.mark.slow
def test_a_command_that_starts_spark_prints_what_the_jvm_says_but_for_the_warning_of_its_boot() -> None:
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "JAVA_TOOL_OPTIONS": "-Dof.a.person=1"}
    done = subprocess.run([sys.executable, "-c", SESSION], env=environment, capture_output=True, text=True, check=True)
    lines = done.stderr.splitlines()
    assert "incubator" not in done.stderr
    assert "Picked up JAVA_TOOL_OPTIONS: -Dof.a.person=1" in lines
    assert lines[-4:] == ["the JVM of first", "no result of first", "the JVM of second", "no result of second"]
    assert done.stdout == "the result\n"
