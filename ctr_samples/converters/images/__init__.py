"""Image folders to TFRecords: the label is the folder, the record keeps the file's own bytes.

writing.py    write_images: from a directory to a published table
folders.py    the content of the directory
tasks.py      what each task does: decode, write, count
decoding.py   whether a file is a complete image, and its size
report.py     the outcome
"""

from ctr_samples.converters.images.report import ImageReport
from ctr_samples.converters.images.writing import write_images

__all__ = ["ImageReport", "write_images"]
