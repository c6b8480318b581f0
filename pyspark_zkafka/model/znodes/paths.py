r"""Names and paths of znodes: what ZooKeeper allows, so that no name leads out of the znode that it is meant to be below.

References
----------
org.apache.zookeeper.common.PathUtils, ZooKeeper 3.4.14 and 3.9.3: what either allows, as a znode of it may exist.
"""

from __future__ import annotations

import re

from pyspark_zkafka.conditions import INVALID_NAME
from pyspark_zkafka.model.topic_names import shown_name

__all__ = ["child_path", "is_znode_name", "is_znode_path"]

# As in Java, whose text is in units of UTF-16, no character beyond the first 65,536 is allowed.
_FORBIDDEN = "\x00-\x1e\x80-\x9e\ud800-\uf8fe\ufff1-\ufffe\U00010000-\U0010ffff"
_NOT_IN_NAMES = re.compile(f"[/{_FORBIDDEN}]")
_NOT_IN_PATHS = re.compile(rf"//|/[.][.]?(?:/|\Z)|./\Z|[{_FORBIDDEN}]", re.DOTALL)


def is_znode_name(text: str) -> bool:
    r"""True if ZooKeeper allows the name for a znode.

    >>> is_znode_name("billing"), is_znode_name("a/b"), is_znode_name("a\nb"), is_znode_name("..")
    (True, False, False, False)
    """
    return text not in ("", ".", "..") and _NOT_IN_NAMES.search(text) is None


def is_znode_path(text: str) -> bool:
    """True if ZooKeeper allows the path for a znode; kazoo's client silently reads others as another path.

    >>> is_znode_path("/"), is_znode_path("/a/b"), is_znode_path("/a//b"), is_znode_path("/a/../b"), is_znode_path("a")
    (True, True, False, False, False)
    """
    return text.startswith("/") and _NOT_IN_PATHS.search(text) is None


def child_path(parent: str, name: str) -> str:
    """``parent/name``.

    Raises
    ------
    OptionError
        INVALID_NAME: ZooKeeper does not allow the name, so that the path would be that of another znode, or of none.
    """
    if not is_znode_name(name):
        raise INVALID_NAME(
            f"{shown_name(name)} cannot be the name of a znode below {parent}; use letters, digits, '.', '_' and '-'",
        )
    return f"{parent}/{name}"
