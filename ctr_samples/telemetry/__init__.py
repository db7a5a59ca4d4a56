"""What a run tells other systems when a day begins and ends. All of it is off unless the command asks for it.

listeners.py   who is told of each day, and a listener that fails
run_line.py    a day as one line of JSON, for a log collector
gauges.py      a text file for Prometheus
lineage.py     OpenLineage events, by the official client
"""

from ctr_samples.telemetry.gauges import Gauges
from ctr_samples.telemetry.listeners import Listener, Listeners
from ctr_samples.telemetry.run_line import JsonLines

__all__ = ["Gauges", "JsonLines", "Listener", "Listeners"]
