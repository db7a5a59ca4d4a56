"""Report the start and end of each day to other systems. Everything is off unless the command enables it.

listeners.py   notifies listeners of each day, and tolerates their failures: a line of JSON, a text file for Prometheus
lineage.py     OpenLineage events, sent by the official client
"""

from ctr_samples.telemetry.listeners import Gauges, JsonLines, Listener, Listeners

__all__ = ["Gauges", "JsonLines", "Listener", "Listeners"]
