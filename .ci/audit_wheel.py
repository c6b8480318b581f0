"""Fails if a wheel needs a newer glibc, or another processor, than its tag says, or a library that Linux does not have.

Argument: the wheel. auditwheel does the looking.
"""

import json
import re
import subprocess
import sys
from pathlib import Path


def platform(text: str) -> tuple[int, int, str]:
    """The numbers of glibc's version, and the processor, of a tag or of a wheel's file name."""
    found = re.search(r"manylinux_(\d+)_(\d+)_(\w+)", text)
    if found is None:
        sys.exit(f"{text} is not for manylinux")
    return int(found[1]), int(found[2]), found[3]


def main(wheel: Path) -> None:
    command = [sys.executable, "-m", "auditwheel", "show", "--json", wheel]
    facts = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    needed, promised = platform(facts["overall_tag"]), platform(wheel.name)
    if needed[:2] > promised[:2] or needed[2] != promised[2] or facts["external_libs"]:
        sys.exit(f"{wheel.name} needs {facts['overall_tag']}, and of other libraries {facts['external_libs']}")
    print(f"{wheel.name}: needs glibc {needed[0]}.{needed[1]}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
