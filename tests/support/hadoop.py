"""A real HDFS: one NameNode and two DataNodes, from the release of Hadoop whose client comes with pyspark."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

import pyspark

from tests.support.daemons import call, daemons_in, free_port
from tests.support.project import PROJECT

JARS = Path(pyspark.__file__).parent / "jars"
SERVERS = PROJECT / "build" / "servers"
DATA_NODES = ("datanode-1", "datanode-2")
_SERVER = "org.apache.hadoop.hdfs.server"
_STATE = "jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
_JAVA = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true"]
LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n%ex
"""


@dataclass(frozen=True, slots=True)
class FileSystem:
    """Where the NameNode listens."""

    port: int

    @property
    def url(self) -> str:
        return f"hdfs://127.0.0.1:{self.port}"


def hadoop_release() -> str:
    """``3.5.0``: that of the client beside Spark, so that one jar with the servers is all that is missing."""
    (client,) = JARS.glob("hadoop-client-api-*.jar")
    found = re.fullmatch(r"hadoop-client-api-(.+)\.jar", client.name)
    assert found is not None
    return found[1]


def server_jar() -> Path:
    """The jar that tools/test-servers fetches."""
    return SERVERS / f"hadoop-client-minicluster-{hadoop_release()}.jar"


def missing() -> str | None:
    """Why HDFS cannot be started here, or None."""
    if shutil.which("java") is None:
        return "java not found; tools/ensure-java installs it where it may"
    if not server_jar().exists():
        return f"{server_jar().name} not found; tools/test-servers fetches it"
    if importlib.util.find_spec("hdfs_native") is None:
        return "the Python package hdfs-native is not installed"
    return None


@contextmanager
def running_file_system(directory: Path) -> Iterator[FileSystem]:
    """Format an empty file system, start both servers, wait until it can be written, and end them with the block."""
    rpc, http = free_port(), free_port()
    _configure(directory, rpc, http)
    with daemons_in(directory) as daemons:
        call([*_java(directory, "namenode"), "-format", "-nonInteractive"], directory)
        daemons.start("namenode", _java(directory, "namenode"))
        for name in DATA_NODES:  # they call until the NameNode answers
            daemons.start(name, _java(directory, name))
        daemons.wait_until(lambda: _can_be_written(http), "the NameNode with its DataNodes")
        yield FileSystem(rpc)


def _java(directory: Path, name: str) -> list[str]:
    """The command of one server; the DataNodes differ in where they put their blocks."""
    command = [*_JAVA, f"-Dlog4j2.configurationFile={directory}/conf/log4j2.properties"]
    command += [f"-Dblocks={directory}/{name}", "-cp", f"{directory}/conf:{server_jar()}:{JARS}/*"]
    return [*command, f"{_SERVER}.namenode.NameNode" if name == "namenode" else f"{_SERVER}.datanode.DataNode"]


def _configure(directory: Path, rpc: int, http: int) -> None:
    conf = directory / "conf"
    conf.mkdir()
    write_xml(
        conf / "core-site.xml",
        {
            "fs.defaultFS": f"hdfs://127.0.0.1:{rpc}",
            "hadoop.tmp.dir": str(directory),
            "ipc.client.connect.retry.interval": "100",
            "ipc.client.connect.max.retries": "600",
        },
    )
    write_xml(
        conf / "hdfs-site.xml",
        {
            # With one DataNode, each close would lose a race against its report and wait half a second.
            "dfs.replication": str(len(DATA_NODES)),
            "dfs.namenode.name.dir": f"{directory}/name",
            "dfs.datanode.data.dir": "${blocks}",
            "dfs.namenode.http-address": f"127.0.0.1:{http}",
            "dfs.datanode.address": "127.0.0.1:0",
            "dfs.datanode.http.address": "127.0.0.1:0",
            "dfs.datanode.ipc.address": "127.0.0.1:0",
        },
    )
    (conf / "log4j2.properties").write_text(LOGGING)


def write_xml(path: Path, settings: dict[str, str]) -> None:
    """A configuration as Hadoop reads it."""
    lines = [
        f"<property><name>{key}</name><value>{escape(value)}</value></property>" for key, value in settings.items()
    ]
    path.write_text("<configuration>\n" + "\n".join(lines) + "\n</configuration>\n")


def _can_be_written(http: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{http}/{_STATE}", timeout=5) as answer:
            state = json.load(answer)["beans"][0]
    except (OSError, ValueError, LookupError):
        return False
    return bool(state["NumLiveDataNodes"] == len(DATA_NODES) and state["FSState"] == "Operational")
