"""Notify other systems at the start and end of each day. Off by default.

listeners.py   fault-tolerant notification of listeners: JSON lines, Prometheus text file, trends page
lineage.py     OpenLineage events, sent with the official client
"""

from ctr_samples.telemetry.listeners import Gauges, JsonLines, Listener, Listeners, TrendsPage

__all__ = ["Gauges", "JsonLines", "Listener", "Listeners", "TrendsPage"]
