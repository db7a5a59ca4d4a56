"""A real YARN: one ResourceManager and one NodeManager of another user, from the jar that also has HDFS."""

from __future__ import annotations

import json
import shutil
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.packed.bare_hosts import as_nobody, owned_by_nobody
from tests.support import hadoop
from tests.support.daemons import daemons_in, free_port
from tests.support.hadoop import SERVERS

_SERVER = "org.apache.hadoop.yarn.server"
_JAVA = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true"]
_ADDRESSES = (
    "resourcemanager.address",
    "resourcemanager.scheduler.address",
    "resourcemanager.resource-tracker.address",
    "resourcemanager.admin.address",
    "resourcemanager.webapp.address",
    "nodemanager.address",
    "nodemanager.localizer.address",
    "nodemanager.webapp.address",
)


def missing() -> str | None:
    """Why YARN cannot be started here, or None."""
    if reason := hadoop.missing():
        return reason
    absent = [f"{name}-*.jar" for name in ("bcprov", "bcpkix", "bcutil") if not list(SERVERS.glob(f"{name}-*.jar"))]
    return f"{', '.join(absent)} not found; tools/test-servers fetches them" if absent else None


@contextmanager
def running_yarn(directory: Path, spark: Path, file_system: str) -> Iterator[Path]:
    """Gives the directory with its configuration, for clients too."""
    ports = {name: free_port() for name in _ADDRESSES}
    conf, servers = directory / "conf", directory / "servers"
    _configure(conf, directory, ports, file_system)
    servers.mkdir()
    for jar in SERVERS.glob("*.jar"):
        shutil.copy(jar, servers)
    with daemons_in(owned_by_nobody(directory / "work")) as daemons:
        for program in ("resourcemanager.ResourceManager", "nodemanager.NodeManager"):
            command = [*_JAVA, f"-Dlog4j2.configurationFile={conf}/log4j2.properties"]
            command += ["-cp", f"{conf}:{servers}/*:{spark}/jars/*", f"{_SERVER}.{program}"]
            daemons.start(program, as_nobody(command))
        daemons.wait_until(lambda: _nodes(ports["resourcemanager.webapp.address"]) == 1, "YARN with its node")
        yield conf


def _configure(conf: Path, directory: Path, ports: dict[str, int], file_system: str) -> None:
    conf.mkdir()
    hadoop.write_xml(conf / "core-site.xml", {"fs.defaultFS": file_system, "hadoop.tmp.dir": f"{directory}/work/tmp"})
    scheduler = f"{_SERVER}.resourcemanager.scheduler.fifo.FifoScheduler"  # it needs no file of its own
    settings = {f"yarn.{name}": f"127.0.0.1:{port}" for name, port in ports.items()} | {
        "yarn.resourcemanager.scheduler.class": scheduler,
        "yarn.scheduler.minimum-allocation-mb": "256",
        "yarn.nodemanager.local-dirs": f"{directory}/work/local",
        "yarn.nodemanager.log-dirs": f"{directory}/work/containers",
        "yarn.nodemanager.resource.memory-mb": "6000",
        "yarn.nodemanager.resource.cpu-vcores": "8",
        "yarn.nodemanager.pmem-check-enabled": "false",
        "yarn.nodemanager.vmem-check-enabled": "false",
        # How full this machine's disk is does not matter.
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
    }
    hadoop.write_xml(conf / "yarn-site.xml", settings)
    (conf / "log4j2.properties").write_text(hadoop.LOGGING)


def _nodes(port: int) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ws/v1/cluster/metrics", timeout=5) as answer:
            return int(json.load(answer)["clusterMetrics"]["activeNodes"])
    except (OSError, ValueError, LookupError):
        return 0
