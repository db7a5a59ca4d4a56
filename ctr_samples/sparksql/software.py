"""The releases that made some samples, as manifests name them."""

from __future__ import annotations

import platform

import numpy
import pyarrow
import pyspark

from ctr_samples import __version__


def versions() -> dict[str, str]:
    """By name: this package, Python, and the libraries that handled the rows."""
    return {
        "ctr_samples": __version__,
        "python": platform.python_version(),
        "pyspark": pyspark.__version__,
        "pyarrow": pyarrow.__version__,
        "numpy": numpy.__version__,
    }
