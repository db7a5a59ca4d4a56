"""Convert other formats to TFRecords.

images/     folders of images, one per class
libsvm.py   libsvm and libfm text
"""
