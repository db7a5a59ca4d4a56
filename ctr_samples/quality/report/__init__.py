"""Pages about one day: each is a single file, built only from documents and the manifest.

::

    wording.py     human-readable figures
    charts.py      small drawings, and histograms from stored distribution curves
    day.py         the page about a day: verdict, accounting, origin
    contents.py    its sections about what the samples hold
    features.py    its section about features
    files.py       page about files that no manifest lists
    served.py      page about a comparison with what was served
"""

from ctr_samples.quality.report.day import render
from ctr_samples.quality.report.files import Contents, render_files

__all__ = ["Contents", "render", "render_files"]
