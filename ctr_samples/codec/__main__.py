"""Compile the kernels for this host ahead of the first job, for instance while an image is built."""

from ctr_samples.codec.machine_code import kernels

kernels()
