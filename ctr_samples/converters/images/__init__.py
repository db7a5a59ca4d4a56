"""Image folders to TFRecords: the folder is the label, and the record keeps the file's own bytes.

conversion.py write_images: from a directory to a published table
folders.py    the content of the directory
tasks.py      the work of each task: decode, write, count
image_checks.py whether a file is a complete image, and its size
image_report.py the result
"""

from ctr_samples.converters.images.conversion import write_images
from ctr_samples.converters.images.image_report import ImageReport

__all__ = ["ImageReport", "write_images"]
