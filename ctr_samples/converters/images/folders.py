"""List a directory with one folder per class. Runs on the driver and opens no files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ctr_samples.addresses import check_address
from ctr_samples.errors import InputError
from ctr_samples.sparksql.failures import input_errors
from ctr_samples.sparksql.session import need_classic

MOST_BYTES = 64 * 2**20
"""Maximum size of a file to read, since a task holds a few files at a time."""


@dataclass(frozen=True, slots=True)
class ImageFolders:
    """Classes in order of their ids, with the number of files per class.

    ``root`` is the directory as given, ``url`` its name in Spark. ``files`` has the columns ``path`` (below the root)
    and ``content`` of all files that are neither empty nor too large; ``bytes`` is their total size. ``refused`` lists
    the remaining files with the reason. ``beside`` lists files directly in the root, which belong to no class.
    """

    root: str
    url: str
    classes: dict[str, int]
    bytes: int
    files: DataFrame
    refused: tuple[tuple[str, str], ...]
    beside: tuple[str, ...]

    @property
    def count(self) -> int:
        """Number of files over all classes."""
        return sum(self.classes.values())


def find_folders(spark: SparkSession, path: str) -> ImageFolders:
    """Find the class folders in a directory. Runs one Spark job over names, and a few file system calls.

    Raises InputError if the directory is missing or has no class folders, if a class folder is empty or has subfolders,
    and for names that start with ``_``, which Spark does not read.
    """
    with input_errors(f"{path} cannot be listed"):
        tree = _Tree(spark, path)
        inside = [name for name in tree.names("*/*") if not _hidden(name)]
        classes = Counter(name.split("/")[0] for name in inside)
        if not classes:
            raise InputError(
                f"{path} holds no class folder with files in it; expected one folder for each class, such as "
                f"{path}/cats/1.jpg."
            )
        beside = sorted(name for name in tree.names("*") if name not in classes and not _hidden(name))
        _check_names(path, [*inside, *beside])
        for name in beside:
            if tree.is_directory(name):
                raise InputError(f"{path}: the class folder {name} holds no file; fill it, or remove it.")
        files = _files(spark, tree)
        counts, large, total = _listed(path, files)
        differing = {name for name, count in classes.items() if counts.get(name, 0) != count}
        refused = [(name, f"has more than {MOST_BYTES >> 20} MiB") for name in large]
        refused += [(name, "is empty") for name in _unlisted(tree, files, inside, differing)]
    return ImageFolders(
        root=path,
        url=tree.root,
        classes={name: classes[name] for name in sorted(classes)},
        bytes=total,
        files=files.where((F.col("length") <= MOST_BYTES) & F.contains("path", F.lit("/"))).select("path", "content"),
        refused=tuple(sorted(refused)),
        beside=tuple(beside),
    )


class _Tree:
    """Lists names below a directory through Hadoop, which supports every file system that Spark can read."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        check_address(path)
        need_classic(spark, "A converter of images")
        self._jvm = cast(Any, spark)._jvm
        given = self._jvm.org.apache.hadoop.fs.Path(path)
        self._system = given.getFileSystem(cast(Any, spark)._jsparkSession.sessionState().newHadoopConf())
        if not self._system.exists(given):
            raise InputError(f"{path} does not exist; check the path.")
        self.path = path
        self.root = self._system.getFileStatus(given).getPath().toString().rstrip("/")
        self.pattern = re.sub(r"([{}\[\]*?\\])", r"\\\1", path)

    def names(self, below: str) -> list[str]:
        """Return the names that match a glob below the root, relative to the root. Handles thousands of names in one
        call.
        """
        pattern = self._jvm.org.apache.hadoop.fs.Path(f"{self.pattern}/{below}")
        paths = self._jvm.org.apache.spark.deploy.SparkHadoopUtil.get().globPath(self._system, pattern).mkString("\0")
        return [name[len(self.root) + 1 :] for name in paths.split("\0")] if paths else []

    def is_directory(self, name: str) -> bool:
        """Whether a name is a directory."""
        path = self._jvm.org.apache.hadoop.fs.Path(f"{self.root}/{name}")
        return bool(self._system.getFileStatus(path).isDirectory())


def _hidden(name: str) -> bool:
    return any(part.startswith(".") for part in name.split("/"))


def _check_names(path: str, names: Sequence[str]) -> None:
    """Raise InputError for names that Spark skips, so that a camera's ``_DSC0001.JPG`` is not silently lost."""
    passed_over = [name for name in names if any(part.startswith("_") for part in name.split("/"))]
    if passed_over:
        raise InputError(
            f"{path} holds {len(passed_over):,} name(s) that begin with `_`, such as {min(passed_over)}, which Spark does not "
            "read; rename them, or move them away."
        )


def _files(spark: SparkSession, tree: _Tree) -> DataFrame:
    files = spark.read.format("binaryFile").option("recursiveFileLookup", True).load(tree.pattern)
    # Names relative to the root do not change when the directory is moved.
    return files.select(F.expr(f"substring(path, {len(tree.root) + 2})").alias("path"), "length", "content")


def _listed(path: str, files: DataFrame) -> tuple[dict[str, int], list[str], int]:
    """Return the number of files per class in Spark's listing, the names of files that are too large, and the total size of
    the rest.
    """
    parts, large = F.split("path", "/"), F.col("length") > MOST_BYTES
    by_class = files.where(F.size(parts) > 1).groupBy(parts[0].alias("class"))
    counted = by_class.agg(
        F.count("*").alias("files"),
        F.min(F.when(F.size(parts) > 2, F.col("path"))).alias("deep"),
        F.collect_list(F.when(large, F.col("path"))).alias("large"),
        F.sum(F.when(~large, F.col("length"))).alias("bytes"),
    )
    with _names_only(files.sparkSession):
        rows = counted.collect()
    for deep in sorted(row["deep"] for row in rows if row["deep"]):
        raise InputError(
            f"{path}: {deep} lies in a folder within a class folder; expected {path}/CLASS/IMAGE. Move the images up, or name "
            "a directory further down."
        )
    large_names = [name for row in rows for name in row["large"]]
    return {row["class"]: row["files"] for row in rows}, large_names, sum(row["bytes"] or 0 for row in rows)


@contextmanager
def _names_only(spark: SparkSession) -> Iterator[None]:
    """Read in few tasks. No file is opened, so file sizes must not determine the number of tasks."""
    key = "spark.sql.files.maxPartitionBytes"
    before = cast(str, spark.conf.get(key))
    spark.conf.set(key, str(2**62))
    try:
        yield
    finally:
        spark.conf.set(key, before)


def _unlisted(tree: _Tree, files: DataFrame, inside: Sequence[str], differing: set[str]) -> list[str]:
    """Find empty files, which Spark does not list. Compares names only in classes where counts differ."""
    if not differing:
        return []
    with _names_only(files.sparkSession):
        paths = files.where(F.split("path", "/")[0].isin(*differing)).select("path").collect()
    there = {row["path"] for row in paths}
    missing = [name for name in inside if name.split("/")[0] in differing and name not in there]
    for name in missing:
        if tree.is_directory(name):
            raise InputError(f"{tree.path}: {name} is a folder within a class folder; remove it.")
    return missing
