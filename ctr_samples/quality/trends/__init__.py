"""Multi-day report page of a sample set: a single file, built only from metrics documents and manifests.

::

    days.py    figures of one day
    parts.py   data for the page sections, with a step chart for each figure
    page.py    renders templates/ within a size limit
"""

from ctr_samples.quality.trends.days import DayPoint, Standing, figures_of
from ctr_samples.quality.trends.page import LARGEST, render

__all__ = ["LARGEST", "DayPoint", "Standing", "figures_of", "render"]
