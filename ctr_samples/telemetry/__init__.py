"""Report the start and end of each day to other systems. Everything is off unless the command enables it.

listeners.py   notifies listeners of each day, and tolerates their failures
run_line.py    a day as one line of JSON, for a log collector
gauges.py      a text file for Prometheus
lineage.py     OpenLineage events, sent by the official client
"""

from ctr_samples.telemetry.gauges import Gauges
from ctr_samples.telemetry.listeners import Listener, Listeners
from ctr_samples.telemetry.run_line import JsonLines

__all__ = ["Gauges", "JsonLines", "Listener", "Listeners"]
