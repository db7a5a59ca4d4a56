"""The page about many days of a sample set: one file, made from their metrics documents and manifests alone.

::

    days.py    the figures of one day
    charts.py  a figure over all days, as a line of steps
    parts.py   the parts of the page, as values
    page.py    puts them into templates/, with a bound on the size
"""

from ctr_samples.quality.trends.days import DayPoint, Standing, figures_of
from ctr_samples.quality.trends.page import LARGEST, render

__all__ = ["LARGEST", "DayPoint", "Standing", "figures_of", "render"]
