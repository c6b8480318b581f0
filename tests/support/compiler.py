"""The C compiler, which the tests of the compiled path need."""

from __future__ import annotations

import shutil

__all__ = ["compiler"]


def compiler() -> str:
    """The path of the C compiler; fails the test where there is none."""
    found = shutil.which("cc") or shutil.which("gcc")
    assert found is not None, "this test needs a C compiler: cc or gcc"
    return found
