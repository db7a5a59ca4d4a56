"""Report page of one run: a single file, made only from the metrics document and the manifest.

::

    manifest_view.py  fields of a manifest that the page needs
    wording.py     figures and tables formatted for people
    charts.py      small drawings: bars, columns, steps
    histograms.py  columns from the curve kept of a feature
    verdict.py, flow.py, clicks.py, features.py, labels.py, shards.py, origin.py   the parts of the page, as values
    page.py        fills templates/, with a limit on the size
    files.py       page about files that no manifest lists
"""

from ctr_samples.quality.report.files import Contents, render_files
from ctr_samples.quality.report.page import render

__all__ = ["Contents", "render", "render_files"]
