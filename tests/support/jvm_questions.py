"""What PySpark asks the JVM."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.clientserver import ClientServerConnection


def noted_questions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets each question from now on, without those of the garbage collector, whenever it runs."""
    asked: list[str] = []
    send = ClientServerConnection.send_command

    def noted(connection: ClientServerConnection, command: str) -> Any:
        if not command.startswith("m"):
            asked.append(command)
        return send(connection, command)

    monkeypatch.setattr(ClientServerConnection, "send_command", noted)
    return asked
