"""A real Hive metastore, in a Derby database of one directory, as a hive-site.xml names it."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pyspark

_HOME = Path(pyspark.__file__).parent
_SITE = """
<configuration>
  <property>
    <name>javax.jdo.option.ConnectionURL</name><value>jdbc:derby:;databaseName=ROOT/metastore;create=true</value>
  </property>
  <property><name>hive.metastore.warehouse.dir</name><value>ROOT/warehouse</value></property>
</configuration>
"""


@dataclass(frozen=True, slots=True)
class Metastore:
    """Open to one process at a time, which is what Derby can do without a server."""

    root: Path

    @property
    def environ(self) -> dict[str, str]:
        """What leads a program of Spark to it."""
        return {"SPARK_CONF_DIR": f"{self.root}/conf"}

    def run(self, *statements: str) -> None:
        """By Spark's own shell for SQL, in a process of its own."""
        options = ["--master", "local[2]", "--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1"]
        environ = {**os.environ, "SPARK_HOME": str(_HOME), **self.environ}
        (self.root / "statements.sql").write_text("".join(f"{statement};\n" for statement in statements))
        command = [_HOME / "bin/spark-sql", *options, "-f", self.root / "statements.sql"]
        done = subprocess.run(
            command, cwd=self.root, env=environ, capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


def new_metastore(root: Path) -> Metastore:
    """One without tables, which is made when it is first used."""
    (root / "conf").mkdir(parents=True)
    (root / "conf/hive-site.xml").write_text(_SITE.replace("ROOT", str(root)))
    return Metastore(root)
