"""Page about many days of a sample set: a single file, made only from their metrics documents and manifests.

::

    days.py    figures of one day
    parts.py   parts of the page, as values, with a step chart of each figure
    page.py    fills templates/, with a limit on the size
"""

from ctr_samples.quality.trends.days import DayPoint, Standing, figures_of
from ctr_samples.quality.trends.page import LARGEST, render

__all__ = ["LARGEST", "DayPoint", "Standing", "figures_of", "render"]
