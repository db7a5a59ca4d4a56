"""Software releases behind the samples, as listed in manifests."""

from __future__ import annotations

import platform

import numpy
import pyarrow
import pyspark

from ctr_samples import __version__


def versions() -> dict[str, str]:
    """Return the releases, by name, of this package, Python, and the libraries that handled the rows."""
    return {
        "ctr_samples": __version__,
        "python": platform.python_version(),
        "pyspark": pyspark.__version__,
        "pyarrow": pyarrow.__version__,
        "numpy": numpy.__version__,
    }
