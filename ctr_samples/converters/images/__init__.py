"""Image folders to TFRecords: the label is the folder, the record keeps the file's own bytes.

conversion.py write_images: from a directory to a published table
folders.py    the content of the directory
tasks.py      what each task does: decode, write, count
image_checks.py whether a file is a complete image, and its size
image_report.py the outcome
"""

from ctr_samples.converters.images.conversion import write_images
from ctr_samples.converters.images.image_report import ImageReport

__all__ = ["ImageReport", "write_images"]
