"""Protobuf's own conformance cases of the binary format, next to the decoder and the encoder."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.documentation import ROOT
from tests.support.public_suites import conformance_runner

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the program to preload is for x86-64"),
]


NESTED = "the frame leaves out recursive fields"
UNKNOWN = "unknown fields are ignored"
EXTENSIONS = "extensions are ignored"
DIFFERENCES = {
    "RepeatedScalarMessageMerge": NESTED,
    "ValidDataMap.STRING.MESSAGE.MergeValue": NESTED,
    "ValidDataOneof.MESSAGE.Merge": NESTED,
    "ValidDataOneofBinary.MESSAGE.Merge": NESTED,
    "UnknownOrdering": UNKNOWN,
    "UnknownVarint": UNKNOWN,
    "AcceptInvalidUtf8.Bytes.Extension": EXTENSIONS,
    "ValidDelimitedExtension.GroupLike": EXTENSIONS,
    "ValidDelimitedExtension.NotGroupLike": EXTENSIONS,
    "MessageSetEncoding.UnknownExtension": EXTENSIONS,
    "ValidMessageSetEncoding": EXTENSIONS,
    "ValidMessageSetEncoding.OutOfOrderGroupsEntries": EXTENSIONS,
    "ValidMessageSetEncoding.SubmessageEncoding": EXTENSIONS,
    "ValidMessageSetEncoding.SubmessageEncoding.NotUnknown": EXTENSIONS,
}
"""Why a case fails, by its name."""


def run(tmp_path: Path, depth: int, *options: str) -> tuple[int, set[str]]:
    """Run cases, and return how many passed and which failed."""
    program, shim, protos = conformance_runner()
    testee = tmp_path / "testee"
    environ = f"env -u LD_PRELOAD PYTHONPATH='{ROOT}'"
    testee.write_text(f"#!/bin/sh\nexec {environ} '{sys.executable}' -m tests.support.protobuf_testee '{protos}' {depth}\n")
    testee.chmod(0o755)
    done = subprocess.run(
        [program, "--enforce_recommended", "--maximum_edition", "2023", *options, testee],
        env={**os.environ, "LD_PRELOAD": str(shim)}, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", timeout=850, check=False,
    )  # fmt: skip
    totals = re.findall(r"CONFORMANCE SUITE (?:PASSED|FAILED): (\d+) successes, .* (\d+) unexpected failures", done.stdout)
    assert totals, done.stdout[-3000:]
    failed = set(re.findall(r"^ERROR, test=([^:]+): ", done.stdout, re.MULTILINE))
    assert len(failed) == sum(int(failures) for _, failures in totals), done.stdout[-3000:]
    return sum(int(successes) for successes, _ in totals), failed


def reason(case: str) -> str:
    """Return why a case fails, or its name if there is no reason."""
    found = re.fullmatch(r"(?:Required|Recommended)\.\w+\.ProtobufInput\.(.+)\.ProtobufOutput", case)
    return DIFFERENCES.get(found[1], case) if found else case


def test_binary_cases(tmp_path: Path) -> None:
    """All payloads are decoded and encoded as Protobuf demands, apart from the documented differences."""
    passed, failed = run(tmp_path, 0)
    assert Counter(map(reason, failed)) == {NESTED: 16, UNKNOWN: 8, EXTENSIONS: 8}
    assert passed == 2801
    nested = sorted(case for case in failed if reason(case) == NESTED)
    names = [option for case in nested for option in ("--test", case)]
    assert run(tmp_path, 1, *names) == (len(nested), set())  # a frame that reads them deeper has their values
