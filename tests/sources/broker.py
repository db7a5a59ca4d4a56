"""A real Kafka on loopback: one process that is broker and controller, and the connector that Spark reads it by."""

from __future__ import annotations

import socket
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.daemons import call, daemons_in, free_port
from tests.support.project import PROJECT

SERVERS = PROJECT / "build" / "servers"
PARTITIONS = 3
_SETTINGS = f"""
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:CONTROLLER_PORT
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:PORT,CONTROLLER://127.0.0.1:CONTROLLER_PORT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=log
num.partitions={PARTITIONS}
offsets.topic.replication.factor=1
"""
_OF_SPARK = ("scala-library", "scala-parallel", "slf4j", "hadoop-client", "jsr305", "lz4", "snappy", "spark-tags")


def connector() -> list[Path]:
    """The jars that Spark does not have itself, which tools/source-servers fetches."""
    return [jar for jar in sorted((SERVERS / "spark-kafka").glob("*.jar")) if not jar.name.startswith(_OF_SPARK)]


def missing() -> str | None:
    """Why Kafka cannot be started here, or None."""
    if not list((SERVERS / "kafka").glob("kafka_*.jar")):
        return "the jars of Kafka not found; tools/source-servers fetches them"
    return None if connector() else "Spark's connector to Kafka not found; tools/source-servers fetches it"


@contextmanager
def running_broker(directory: Path) -> Iterator[str]:
    """Start one without topics, which it makes as they are written to, and end it with the block. Gives its address."""
    ports = {"CONTROLLER_PORT": str(free_port()), "PORT": str(free_port())}
    settings = _SETTINGS
    for word, port in ports.items():
        settings = settings.replace(word, port)
    (directory / "server.properties").write_text(settings)
    java = ["java", "-Xmx384m", "-cp", f"{SERVERS}/kafka/*"]
    cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")
    call([*java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", "server.properties"], directory)
    with daemons_in(directory) as daemons:
        daemons.start("kafka", [*java, "kafka.Kafka", "server.properties"])
        daemons.wait_until(lambda: _listens(int(ports["PORT"])), "Kafka")
        yield f"127.0.0.1:{ports['PORT']}"


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
