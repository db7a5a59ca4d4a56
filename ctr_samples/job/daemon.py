"""The process that forks Spark's Python workers in a local run. It imports what tasks need, so no worker has to.

Spark starts it as ``python -m ctr_samples.job.daemon``, because of the setting ``spark.python.daemon.module``.
"""

from __future__ import annotations

import contextlib

from pyspark import daemon

from ctr_samples.samples.executors import import_modules
from ctr_samples.sparksql.workers import freeze_imports

with contextlib.suppress(Exception):  # a task says it better
    import_modules()

if __name__ == "__main__":
    freeze_imports()
    daemon.manager()
