"""Writes an sdist anew, so that it depends on its files alone: setuptools puts the time and the user into it.

Arguments: the sdist, the folder for the new one. Times are SOURCE_DATE_EPOCH.
"""

import gzip
import os
import sys
import tarfile
from pathlib import Path


def normalize(sdist: Path, folder: Path, epoch: int) -> None:
    """Copy the members in the order of their names, as files of root."""
    with (
        tarfile.open(sdist) as old,
        (folder / sdist.name).open("wb") as out,
        gzip.GzipFile("", "wb", mtime=epoch, fileobj=out) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            member.mtime = epoch
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)


if __name__ == "__main__":
    normalize(Path(sys.argv[1]), Path(sys.argv[2]), int(os.environ["SOURCE_DATE_EPOCH"]))
