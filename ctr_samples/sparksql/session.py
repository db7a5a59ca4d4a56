"""Spark sessions for commands, and isolated sessions with the settings of a run."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import shutil
import signal
import stat
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pyspark
from py4j import java_gateway
from py4j.java_gateway import JavaClass, JavaMember
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from ctr_samples.errors import CtrSamplesError, UsageError
from ctr_samples.private_directory import NotPrivate, exposure, private_directory, user_cache
from ctr_samples.sparksql.workers import DAEMON, stop
from ctr_samples.sparksql.zones import need_zone

_USED = (
    "functions",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.classic.SparkSession",
    "PythonRDD",
    "PythonSQLUtils",
    "PythonUtils",
    "SerDeUtil",
    "SimplePythonFunction",
)
"""Names by which PySpark looks up its classes. Those without a dot are searched for in several packages and all jars."""


class _Remembered(JavaClass):  # type: ignore[misc]
    """A class that looks up each of its static methods once."""

    def __getattr__(self, name: str) -> Any:
        member = super().__getattr__(name)
        if isinstance(member, JavaMember):  # the value of a field may change
            setattr(self, name, member)
        return member


def remember_classes(spark: SparkSession) -> None:
    """Look up what PySpark needs of the JVM, so that it does not do so at each use.

    Otherwise ``col("a")`` asks the JVM for a class and for its method before it calls it, each time. That is a third of all
    questions that the planning of a run asks.
    """
    jvm = cast(Any, spark)._jvm
    for name in _USED:
        found = getattr(jvm, name)
        if type(found) is JavaClass:  # a package, if this release of Spark has no such class
            found.__class__ = _Remembered
            setattr(jvm, name, found)


SWITCH = "CTR_SAMPLES_CLASS_ARCHIVE"
"""Environment variable. ``off`` disables the archive."""

_WHOLE = (0xF00BABA8).to_bytes(4, "little")
"""First bytes of a complete file, written last by the JVM. An incomplete file would crash the JVM."""

_FORGOTTEN_S = 30 * 86400
_QUIET = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off -XX:+IgnoreUnrecognizedVMOptions"


def java_options(java: str, *, record: bool) -> str:
    """Return JVM options to load the archive, if it exists, or else, with ``record``, to write it at exit.

    ``java`` is the path of the executable. Empty if no archive exists and none can be stored.
    """
    place = user_cache()
    if os.environ.get(SWITCH) == "off" or '"' in str(place):
        return ""
    try:
        with private_directory(place, create=record):
            archive = _archive(place, _key(java))
    except (NotPrivate, OSError):
        return ""
    if archive.exists():
        os.utime(archive)
        return f'-XX:SharedArchiveFile="{archive}" {_QUIET}'
    return f'-XX:ArchiveClassesAtExit="{place}/{archive.stem}.{uuid.uuid4().hex}" {_QUIET}' if record else ""


def _archive(place: Path, key: str) -> Path:
    """Return the archive of a key, if complete. Renames a newly written archive, and deletes old archives."""
    # The name contains the size, so that a truncated file is never used.
    for file in _files(place, f"classes-{key}-*.jsa"):
        if file.name == f"classes-{key}-{file.stat().st_size}.jsa":
            return file
        file.unlink()
    for written in _files(place, f"classes-{key}.*"):
        with written.open("rb") as content:
            if content.read(len(_WHOLE)) != _WHOLE:
                continue  # still being written, or abandoned
            os.fsync(content.fileno())
        return written.rename(place / f"classes-{key}-{written.stat().st_size}.jsa")
    for file in _files(place, "classes-*"):
        if file.stat().st_mtime < time.time() - _FORGOTTEN_S:
            file.unlink()
    return place / f"classes-{key}.jsa"


def _files(place: Path, pattern: str) -> Iterator[Path]:
    """Yield the files that no other user could have written. Tolerates concurrent removal."""
    for path in sorted(place.glob(pattern)):
        with contextlib.suppress(FileNotFoundError):
            status = path.lstat()
            if stat.S_ISREG(status.st_mode) and exposure(status) is None:
                yield path


def _key(java: str) -> str:
    """Return a cache key that changes with the JVM or Spark's jars."""
    program = Path(os.path.realpath(java))
    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    changed = [path.stat().st_mtime_ns for path in (program, home / "jars")]
    return hashlib.sha256(repr((program, home, pyspark.__version__, changed)).encode()).hexdigest()[:16]


_SETTINGS = {
    # A value that cannot be cast is an error or an explicit try_cast, never a silent null.
    "spark.sql.ansi.enabled": "true",
    # Text that only old parsers read must not become a different time.
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    # Names that differ only in case would be one feature here and two in the record.
    "spark.sql.caseSensitive": "false",
    # Encodings of files, such as GBK. Spark 4 refuses those that not every Java has.
    "spark.sql.legacy.javaCharsets": "true",
    # Values of key=value directories are text, whatever they look like on the days read.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    # Spark 4.0 can read what later releases write, but does not by default.
    "spark.sql.variant.allowReadingShredded": "true",
    # A damaged or vanished input file must fail the run, not shrink it.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.legacy.sizeOfNull": "false",
    # Replacing an empty stage by an empty relation drops the counts observed in it.
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.optimizer.excludedRules": "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation",
    # Samples are sorted before small tables are joined to them by broadcast, which keeps their order; Spark drops such sorts.
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.EliminateSorts",
    # Spark keeps two batches in a Python worker while one is written; wide rows must not make them large.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(8 << 20),
    # Inferring filters from expressions takes all memory once there are many features of one column, and joins need none.
    "spark.sql.constraintPropagation.enabled": "false",
    # Timestamps are instants; their local form exists only while text is parsed.
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
}

JVM_OPTIONS = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
"""Options for the JVM of local runs: ten times the default thresholds of the optimizing compiler, which takes a tenth of the
processor time at a million impressions. Code of long runs soon reaches them. They select no garbage collector: a JVM does not
start if ``JDK_JAVA_OPTIONS`` selects another.
"""

_QUICK_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
"""The same for little data: the quick compiler alone, with as much room for its code as both have by default."""

_LEAST_TASKS = ("spark.sql.files.minPartitionNum", "spark.sql.adaptive.coalescePartitions.minPartitionNum")
_SLICES_OF_A_CORE = 4
"""Minimum number of read or shuffle tasks per core, if each task has at least a megabyte."""

_CHATTY = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers that print a Java stack trace even for exceptions that are reported as one sentence."""


@contextmanager
def session_of_command(
    name: str, *, hive: bool = False, whole_run: bool = False, quick: bool = False
) -> Iterator[SparkSession]:
    """Yield the Spark session of a command: the active session of spark-submit, or a local session on all cores. Stops
    a session that it started.

    With ``hive``, the session uses the Hive metastore of the cluster's hive-site.xml. A ``whole_run`` loads nearly all
    classes that commands need, and archives them for later commands. A ``quick`` session starts sooner and computes more
    slowly: for little data. Raises UsageError if SPARK_REMOTE is set.
    """
    logging.getLogger().addFilter(_is_not_of_py4j)
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    if "SPARK_REMOTE" in os.environ:
        raise UsageError("SPARK_REMOTE is set, but this command needs Spark's JVM beside it; unset it.")
    # Python workers and planner workers must use this interpreter, which has pyarrow.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if hive:
        builder = builder.enableHiveSupport()
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # under spark-submit, which has its own settings
        settings = _settings_of_workers()
    else:
        options = f"{_QUICK_OPTIONS if quick else JVM_OPTIONS} {java_options(_find_java(), record=whole_run)}"
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # a laptop need not know its own name
        settings = _local_settings(options)
        _start_jvm(settings)
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        stop(session)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Return False for stack traces of calls to the JVM that Ctrl-C or its death ends: the errors are told in a sentence."""
    return record.pathname != str(java_gateway.__file__)


def _settings_of_workers() -> dict[str, str]:
    """Return what spark-submit leaves open about the Python workers of a local run. The process that forks them starts before
    packages of spark-submit are added to their path, and could not import them.
    """
    SparkContext._ensure_initialized()
    given = SparkConf()
    is_local = re.fullmatch(r"local(\[.*\])?", str(given.get("spark.master", ""))) is not None
    is_free = not any(given.get(key, "") for key in ("spark.python.daemon.module", "spark.submit.pyFiles"))
    return {"spark.python.daemon.module": DAEMON} if is_local and is_free else {}


WARNING = "WARNING: Using incubator modules: jdk.incubator.vector"
_FILTER = f"LC_ALL=C sed -u '/^{WARNING}$/d' || cat || cat > /dev/null"
"""Passes all lines but the warning on. Without such a sed, all lines pass; if nobody reads them, the writer need not know."""


@contextmanager
def jvm_stderr() -> Iterator[int | None]:
    """Yield a descriptor for the JVM's stderr, or None to inherit stderr if it is closed or the filter cannot start.

    Spark's launcher adds an incubator module, and the JVM prints a warning before it reads any of our settings. A filter
    removes this line. It is a process of its own, because the JVM outlives the command, which may be killed, and must never
    block on it. No process waits for the filter, which ends with its last writer.
    """
    inlet = _start_filter() if hasattr(os, "posix_spawn") else None
    try:
        yield inlet
    finally:
        if inlet is not None:
            os.close(inlet)  # the last writer must not be this process


def _start_filter() -> int | None:
    """Start a filter that writes to stderr. Return the write end of its pipe, or None on failure."""
    with contextlib.suppress(OSError):
        os.fstat(2)
        outlet, inlet = os.pipe()
        actions = [(os.POSIX_SPAWN_DUP2, outlet, 0), (os.POSIX_SPAWN_DUP2, 2, 1)]
        # Blocks signals to the process group, such as Ctrl-C, so that the JVM's last output gets through.
        blocked = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT]
        try:
            os.posix_spawnp("sh", ["sh", "-c", _FILTER], os.environ, file_actions=actions, setsigmask=blocked)
        except OSError:
            os.close(inlet)
        else:
            return inlet
        finally:
            os.close(outlet)
    return None


def _start_jvm(settings: Mapping[str, str]) -> None:
    """Start the JVM for the next session like Spark, but without its startup warning. Runs once per process."""
    if SparkContext._gateway is None:
        conf = SparkConf().setAll(list(settings.items()))
        with jvm_stderr() as stderr:
            # What a JVM prints is no result, and it may still run when the command is done and somebody waits for its stdout.
            gateway = launch_gateway(conf, {"stdout": stderr, "stderr": stderr})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway)


def _find_java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(os.path.join(home, "bin", "java") if home else "java")
    if java is None:
        problem = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no `java` on the PATH"
        raise CtrSamplesError(f"Spark needs Java 17 or newer, but {problem}; install it, or set JAVA_HOME.")
    return java


def _local_settings(options: str) -> dict[str, str]:
    """Return the settings of a quiet local run, those of conf/spark-local.conf but for the JVM's ``options``."""
    quiet = Path(__file__).with_name("log4j2.properties")
    return {
        "spark.master": "local[*,4]",  # a task whose Python worker dies is retried, as on a cluster
        "spark.python.daemon.module": DAEMON,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": os.environ.get("SPARK_DRIVER_MEMORY", "2g"),
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={quiet} {options}",
        "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
    }


def smallest_memory(spark: SparkSession) -> int:
    """Return the memory of the driver or of an executor in bytes, whichever is smaller."""
    keys = ["spark.driver.memory"]
    if not str(spark.conf.get("spark.master", "")).startswith("local"):
        keys.append("spark.executor.memory")
    return min(_bytes_of(str(spark.conf.get(key, "1g"))) for key in keys)


def _bytes_of(text: str) -> int:
    """Parse a Spark memory size such as ``512m``, ``4g`` or ``8gb``. A bare number is in mebibytes."""
    written = re.fullmatch(r"(\d+)\s*([kmgtp]?)(b?)", text.strip().lower())
    assert written is not None, f"Spark has started with {text}"
    number, unit, byte = written.groups()
    power = " kmgtp".index(unit or (" " if byte else "m"))
    return int(number) << 10 * power


def make_active(spark: SparkSession) -> None:
    """Make a session active in this thread, after a run has used its own. Spark looks up formats in it."""
    spark.createDataFrame([], "x int")  # the only public call that does it


def need_classic(spark: SparkSession, what: str) -> None:
    """Raise UsageError under Spark Connect, since ``what`` inspects its plans in the driver's JVM."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise UsageError(
            f"{what} cannot run through Spark Connect: it needs Spark's JVM beside it. Take a session of "
            "`SparkSession.builder.master(...)`, and give spark-submit no `--remote`. "
            "The format `tfrecord` and `write_tfrecord` work with both."
        )


def run_session(spark: SparkSession, timezone: str) -> SparkSession:
    """Create a session on the same cluster with separate SQL settings. The caller's settings stay unchanged.

    Raises UsageError under Spark Connect, and ConfigError for a zone that Java does not know.
    """
    need_classic(spark, "The job")
    need_zone(spark, timezone)
    remember_classes(spark)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    # By default, three files on two cores, or data for three tasks, become three tasks, and the last runs alone.
    slices = str(_SLICES_OF_A_CORE * spark.sparkContext.defaultParallelism)
    session = spark.newSession()
    own = {"spark.sql.session.timeZone": timezone, **dict.fromkeys(_LEAST_TASKS, slices)}
    for key, value in {**_SETTINGS, **own}.items():
        session.conf.set(key, value)
    return session
