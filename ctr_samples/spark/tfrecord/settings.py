"""Spark's settings, of which a Python data source is told nothing where a query is planned."""

from __future__ import annotations

from pyspark import TaskContext


def session_setting(name: str, default: str) -> str:
    """A setting of the session that runs the query. Runs in tasks, the only place where Spark passes settings on."""
    context = TaskContext.get()
    found = context.getLocalProperty(name) if context else None
    return default if found is None else found
