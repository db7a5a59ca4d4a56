"""Compile the kernels for this host before the first job, for example during an image build, or beside a first command."""

import os

from ctr_samples.codec.machine_code import decoders, kernels

kernels()
os.nice(19)  # nobody waits for these yet
decoders()
