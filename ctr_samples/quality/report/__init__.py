"""Report page of one run: a single file, built only from the metrics document and the manifest.

::

    manifest_view.py  manifest fields used by the page
    wording.py     human-readable figures and tables
    charts.py      small drawings: bars, columns, steps
    histograms.py  histograms from stored distribution curves
    verdict.py, flow.py, clicks.py, features.py, labels.py, shards.py, origin.py   data for the page sections
    page.py        renders templates/ within a size limit
    served.py      page about a comparison with what was served
    files.py       page about files that no manifest lists
"""

from ctr_samples.quality.report.files import Contents, render_files
from ctr_samples.quality.report.page import render

__all__ = ["Contents", "render", "render_files"]
