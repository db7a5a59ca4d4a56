"""Import TensorFlow without its startup messages, for interactive commands."""

from __future__ import annotations

import os
import sys
from typing import Any


def import_tensorflow() -> Any:
    """Import TensorFlow with stderr redirected to the null device.

    TF_CPP_MIN_LOG_LEVEL does not suppress messages logged while TensorFlow's libraries load.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        import tensorflow
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
    return tensorflow
