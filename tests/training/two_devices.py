"""Runs jobs/train_ctr.py on a machine that seems to have two processors without shared memory, as two GPUs are."""

import runpy

import tensorflow as tf

from tests.training.training_runs import JOB

one = tf.config.LogicalDeviceConfiguration()
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], [one, one])
runpy.run_path(str(JOB), run_name="__main__")
