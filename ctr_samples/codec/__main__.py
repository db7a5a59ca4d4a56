"""Compile the kernels for this host before the first job, for example during an image build."""

from ctr_samples.codec.machine_code import decoders, kernels

kernels()
decoders()
