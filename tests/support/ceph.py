"""A real S3: a Ceph RADOS Gateway with one monitor and one object store in memory, from Debian's packages."""

from __future__ import annotations

import http.client
import json
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import boto3

from tests.support.daemons import ServerFailed, call, daemons_in, free_port

PROGRAMS = ("ceph", "ceph-mon", "ceph-osd", "monmaptool", "radosgw", "radosgw-admin")
BUCKET, OPEN_BUCKET = "lake", "open-to-all"
"""Everyone may read and write the second without a signature, which would cover what a proxy changes."""
KEY, SECRET = "key-of-the-tests", "secret-of-the-tests"

_CONFIGURATION = """\
[global]
fsid = {fsid}
mon host = v1:127.0.0.1:{monitor}
ms bind msgr2 = false
public addr = 127.0.0.1
cluster addr = 127.0.0.1
auth cluster required = none
auth service required = none
auth client required = none
run dir = {directory}
admin socket =
log to file = false
mon data = {directory}/monitor
# The file system's fill level is of no interest: data are in memory.
mon data avail crit = 0
# One store without copies, and few placement groups.
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
mon allow pool size one = true
osd crush chooseleaf type = 0
# A store that started would tell the monitor its place, and end at once if it does so before it knows the monitor well.
osd crush update on start = false
osd class update on start = false
osd objectstore = memstore
osd data = {directory}/store
memstore device bytes = 4294967296
# Decisions of a single monitor need not wait for company: pools appear at once.
paxos propose interval = 0.02
paxos min wait = 0.01
[client.rgw.tests]
rgw frontends = beast endpoint=127.0.0.1:{gateway} tcp_nodelay=1
rgw thread pool size = 32
rgw enable usage log = false
"""
_ANYTHING = {
    "Effect": "Allow",
    "Principal": "*",
    "Action": "s3:*",
    "Resource": [f"arn:aws:s3:::{OPEN_BUCKET}", f"arn:aws:s3:::{OPEN_BUCKET}/*"],
}


@dataclass(frozen=True, slots=True)
class Gateway:
    """Where the gateway listens; ``environ`` is what leads a client of S3 to it."""

    port: int

    @property
    def environ(self) -> dict[str, str]:
        return environ(self.port)


def environ(port: int, *, secret: str = SECRET) -> dict[str, str]:
    """The variables that obstore reads; another port leads through a proxy, another secret to nothing."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_REGION": "us-east-1",
        "NO_PROXY": "127.0.0.1",
    }


def missing() -> str | None:
    """Why the gateway cannot be started here, or None."""
    absent = [program for program in PROGRAMS if shutil.which(program) is None]
    return f"{', '.join(absent)} not found; tools/test-servers installs Ceph where it may" if absent else None


@contextmanager
def running_gateway(directory: Path) -> Iterator[Gateway]:
    """Start all three processes, make a user and the bucket, and end them with the block."""
    ports = {"monitor": free_port(), "gateway": free_port()}
    fsid, store_id = str(uuid.uuid4()), str(uuid.uuid4())
    config = directory / "ceph.conf"
    config.write_text(_CONFIGURATION.format(fsid=fsid, directory=directory, **ports))
    for name in ("monitor", "store"):
        (directory / name).mkdir()
    with daemons_in(directory) as daemons:
        monitors = directory / "monmap"
        address = f"[v1:127.0.0.1:{ports['monitor']}]"
        call(["monmaptool", "--create", "--fsid", fsid, "--addv", "a", address, monitors], directory)
        call(["ceph-mon", "-c", config, "--mkfs", "-i", "a", "--monmap", monitors], directory)
        daemons.start("ceph-mon", ["ceph-mon", "-c", config, "-i", "a", "-f"])
        _tell_monitor(config, "osd", "new", store_id)
        call(["ceph-osd", "-c", config, "-i", "0", "--mkfs", "--osd-uuid", store_id], directory)
        daemons.start("ceph-osd", ["ceph-osd", "-c", config, "-i", "0", "-f"])
        _tell_monitor(config, "osd", "crush", "add", "osd.0", "1.0", "root=default", "host=a")
        user = ["--uid", "tests", "--display-name", "tests", "--access-key", KEY, "--secret-key", SECRET]
        call(["radosgw-admin", "-c", config, "-n", "client.rgw.tests", "user", "create", *user], directory)  # waits
        daemons.start("radosgw", ["radosgw", "-c", config, "-n", "client.rgw.tests", "-f"])
        daemons.wait_until(lambda: _answers(ports["gateway"]), "the gateway")
        gateway = Gateway(ports["gateway"])
        _make_buckets(gateway)
        yield gateway


def _tell_monitor(config: Path, *words: str) -> None:
    """Have the monitor carry out what may be said twice.

    A command that Ceph's own client sends before it knows the cluster's id is refused with ``wrong fsid``: one in twenty
    on a busy machine.
    """
    command = ["ceph", "-c", str(config), "--connect-timeout", "120", *words]
    for _ in range(9):
        with suppress(ServerFailed):
            call(command, config.parent)
            return
    call(command, config.parent)


def client(gateway: Gateway) -> boto3.client:
    """A view from outside."""
    access = gateway.environ
    return boto3.client(
        "s3",
        endpoint_url=access["AWS_ENDPOINT_URL"],
        region_name=access["AWS_REGION"],
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
    )


def _make_buckets(gateway: Gateway) -> None:
    made = client(gateway)
    made.create_bucket(Bucket=BUCKET)
    made.create_bucket(Bucket=OPEN_BUCKET)
    made.put_bucket_policy(Bucket=OPEN_BUCKET, Policy=json.dumps({"Version": "2012-10-17", "Statement": [_ANYTHING]}))
    made.close()


def _answers(port: int) -> bool:
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", "/")
        connection.getresponse().read()
        connection.close()
    except (OSError, http.client.HTTPException):
        return False
    return True
