"""Hypothesis profiles, and TensorFlow imported once: its import warns about itself."""

import os
import warnings

from hypothesis import HealthCheck, settings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import tensorflow  # noqa: F401

# A first example may wait for kernels to compile, and the machine may be busy.
slow_is_fine = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("normal", max_examples=75, suppress_health_check=slow_is_fine)
settings.register_profile("nightly", max_examples=20_000, suppress_health_check=slow_is_fine)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "normal"))
