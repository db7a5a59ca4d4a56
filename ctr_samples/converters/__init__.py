"""Converters from other formats to TFRecords.

images/     image folders, one per class
libsvm.py   libsvm and libfm text
"""
