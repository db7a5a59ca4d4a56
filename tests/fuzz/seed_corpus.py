"""Write the first corpus: the odd messages of the tests, each as a file named for its content."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tests.support.wire_messages import odd_message

for seed in range(60):
    content = odd_message(seed)
    (Path(__file__).parent / "corpus" / hashlib.sha1(content, usedforsecurity=False).hexdigest()).write_bytes(content)
