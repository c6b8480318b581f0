"""Brokers with ACLs: their configuration, the login of a user without rights, and rights to grant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.support.security import MODULES

__all__ = ["CONFIG", "LOGIN", "USER", "Right", "grant", "withdraw"]

USER = "writer"
_PASSWORD = "sesame"

CONFIG = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.login.plain.sasl.jaas.config": f'{MODULES}.plain.PlainLoginModule required user_{USER}="{_PASSWORD}";',
}
"""Configuration of brokers in ZooKeeper mode whose listener LOGIN allows the user only granted operations."""

LOGIN = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.username": USER,
    "kafka.sasl.password": _PASSWORD,
}
"""Options for the user's login."""


class Right(NamedTuple):
    """An operation allowed to the user on a resource, or on all resources with a prefix."""

    kind: ResourceType
    name: str
    operation: AclOperation
    pattern: ResourcePatternType = ResourcePatternType.LITERAL

    def acl(self, form: type[AclBinding]) -> AclBinding:
        """Return the ACL, as a binding or as a filter for it."""
        return form(self.kind, self.name, self.pattern, f"User:{USER}", "*", self.operation, AclPermissionType.ALLOW)


def grant(admin: AdminClient, rights: Iterable[Right]) -> None:
    """Allow operations."""
    for future in admin.create_acls([right.acl(AclBinding) for right in rights]).values():
        future.result(30)


def withdraw(admin: AdminClient, rights: Iterable[Right]) -> None:
    """Withdraw allowed operations."""
    for future in admin.delete_acls([right.acl(AclBindingFilter) for right in rights]).values():
        future.result(30)
