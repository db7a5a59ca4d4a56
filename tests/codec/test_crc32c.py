"""The checksum, on whatever processor."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llvmlite import binding

from ctr_samples.crc32c import INSTRUCTION, checksum_module, crc32c, instruction_of, table_checksum
from tests.codec.framing import masked_crc


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(reversed(range(32))), 0x113FDB5C),
    ],
)
def test_the_published_values_come_out(data: bytes, expected: int) -> None:
    """RFC 3720, appendix B.4."""
    assert crc32c(data) == expected


@given(data=st.binary(max_size=300), border=st.integers(0, 300))
def test_a_checksum_continues_from_another(data: bytes, border: int) -> None:
    assert crc32c(data[border:], crc32c(data[:border])) == crc32c(data)


@given(data=st.binary(max_size=300))
def test_it_agrees_with_the_bytewise_definition(data: bytes) -> None:
    crc = crc32c(data)
    assert ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF == masked_crc(data)


@pytest.fixture(scope="module")
def table() -> object:
    return table_checksum()


@given(data=st.binary(min_size=1, max_size=300))
def test_the_table_agrees_with_the_instruction(table: object, data: bytes) -> None:
    array = np.frombuffer(data, np.uint8)
    assert table(array.ctypes.data, array.size, 0xFFFFFFFF) ^ 0xFFFFFFFF == crc32c(data)  # type: ignore[operator]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda b: np.frombuffer(b, "<u4")])
def test_any_contiguous_buffer_will_do(kind: type) -> None:
    data = struct.pack("<4I", 1, 2, 3, 2**32 - 1)
    assert crc32c(kind(data)) == crc32c(data)


@pytest.mark.parametrize(
    ("machine", "features", "system", "expected"),
    [
        ("x86_64", {"sse4.2": True}, "linux", "sse4.2"),
        ("AMD64", {"sse4.2": True}, "win32", "sse4.2"),
        ("x86_64", {"sse4.2": False}, "linux", "table"),
        ("aarch64", {"crc": True}, "linux", "arm64"),
        ("aarch64", {"neon": True}, "linux", "table"),
        ("arm64", {}, "darwin", "arm64"),
        ("ppc64le", {}, "linux", "table"),
    ],
)
def test_the_processor_decides(machine: str, features: dict[str, bool], system: str, expected: str) -> None:
    assert instruction_of(machine, features, system) == expected


def test_this_machine_uses_an_instruction_where_it_has_one() -> None:
    features = dict(binding.get_host_cpu_features())
    assert (INSTRUCTION == "table") == (not features.get("sse4.2") and not features.get("crc"))


def test_arm64_code_uses_the_crc_instructions() -> None:
    """Compiled for another processor, so only its text is looked at."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    machine = binding.Target.from_triple("aarch64-unknown-linux-gnu").create_target_machine(features="+crc")
    text = machine.emit_assembly(binding.parse_assembly(str(checksum_module("arm64"))))
    assert "crc32cx" in text
    assert "crc32cb" in text
