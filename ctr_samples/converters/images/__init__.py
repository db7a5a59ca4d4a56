"""Converts image folders to TFRecords. The folder name is the label, and the record holds the unchanged file.

conversion.py write_images: converts a directory to a published table, and sums it up
folders.py    lists the directory
tasks.py      code that runs in each task: decode, write, count
image_checks.py checks that a file is a complete image, and returns its size
"""

from ctr_samples.converters.images.conversion import ImageReport, write_images

__all__ = ["ImageReport", "write_images"]
