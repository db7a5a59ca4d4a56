"""The page about the samples of one run: one file, made from the metrics document and the manifest alone.

::

    manifest_view.py  what the page needs of a manifest
    wording.py     figures as people read them
    charts.py      small drawings: bars, columns, steps
    histograms.py  columns from the curve that was kept of a feature
    tables.py      tables as values
    verdict.py, flow.py, clicks.py, features.py, labels.py, shards.py, origin.py   the parts of the page, as values
    page.py        puts them into templates/, with a bound on the size
    files.py       another page: about files that no manifest lists
"""

from ctr_samples.quality.report.files import Contents, render_files
from ctr_samples.quality.report.page import render

__all__ = ["Contents", "render", "render_files"]
