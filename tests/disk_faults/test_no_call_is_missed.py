"""The crash points are all there are: the kernel sees no call that changes the output and was not counted."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from ctr_samples.shards import open_storage
from tests.support.small_publish import SCENARIOS

NAMES = {"mkdirat": "mkdir", "linkat": "link", "unlinkat": "unlink", "renameat": "rename", "renameat2": "rename"} | {
    "fchmodat": "chmod",
    "pwrite64": "write",
}
"""How the kernel calls what Python calls otherwise, by architecture and C library."""


def called(line: str) -> str:
    """The name of the call in a line of strace; an open is a creation or another one."""
    name = line.partition("(")[0].split()[-1]
    if "AT_REMOVEDIR" in line:
        return "rmdir"
    if name in ("open", "openat", "creat"):
        return "create" if "O_CREAT" in line else "open"
    return NAMES.get(name, name)


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace")
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_what_is_counted_is_what_the_kernel_sees(scenario: str, tmp_path: Path) -> None:
    place, log = tmp_path / "output", tmp_path / "strace"
    SCENARIOS[scenario].prepare(open_storage(place))
    order = {"scenario": scenario, "url": str(place), "run": 2, "dies_after": 0, "half": False, "sync": True}
    program = ["strace", "--follow-forks", "--decode-fds=path", "--trace=all", f"--output={log}"]
    answer = subprocess.run(
        [*program, sys.executable, "-m", "tests.support.dying_publisher"],
        input=json.dumps(order | {"environment": {}}) + "\n",
        check=True,
        capture_output=True,
        text=True,
    )
    counted = Counter(json.loads(answer.stdout)["calls"])
    lines = [line for line in log.read_text().splitlines() if f"{tmp_path}" in line and "resumed>" not in line]
    seen = Counter(called(line) for line in lines if not re.search(r"\bexecve\(|\bread\(|write\(1", line))
    changes = ["create", "write", "fsync", "rename", "link", "unlink", "mkdir", "rmdir", "chmod", "fchmod"]
    assert {name: seen.pop(name, 0) for name in changes} == {name: counted[name] for name in changes}
    assert seen.keys() <= LOOKS


LOOKS = set("open close stat lstat fstat newfstatat statx getdents64 lseek fcntl ioctl readlink access".split())
"""What else is called on the output, by Python itself too; none of it changes anything."""
