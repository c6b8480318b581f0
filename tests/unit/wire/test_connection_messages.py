"""Requests and responses of new connections."""

from __future__ import annotations

import pytest

from pyspark_zkafka.wire import connection_messages, protocol
from pyspark_zkafka.wire.connection_messages import Supported
from pyspark_zkafka.wire.protocol import Reader, Unsupported


class TestApiVersions:
    """ApiVersions responses and requests."""

    def test_old(self) -> None:
        """Version 0 has an array of ranges."""
        data = protocol.int16(0) + protocol.int32(2) + b"".join(map(protocol.int16, (1, 0, 11, 3, 4, 9)))
        assert connection_messages.read_api_versions(Reader(data)) == Supported({1: (0, 11), 3: (4, 9)}, {})

    def test_new(self) -> None:
        """Version 3 is compact, and has further fields."""
        row = b"".join(map(protocol.int16, (1, 4, 17))) + protocol.NO_TAGS
        data = protocol.int16(0) + protocol.array([row], True) + protocol.int32(0) + protocol.NO_TAGS
        assert connection_messages.read_api_versions(Reader(data, 3, flexible=True)) == Supported({1: (4, 17)}, {})

    def test_features(self) -> None:
        """Levels of the cluster's enabled features are read from a tagged field."""
        level = protocol.string("transaction.version", True) + protocol.int16(2) + protocol.int16(2) + protocol.NO_TAGS
        field = protocol.array([level], True)
        tags = b"\x02" + b"\x01\x08" + bytes(8) + b"\x02" + protocol.unsigned_varint(len(field)) + field
        data = protocol.int16(0) + protocol.array([], True) + protocol.int32(0) + tags
        found = connection_messages.read_api_versions(Reader(data, 3, flexible=True))
        assert found == Supported({}, {"transaction.version": 2})

    def test_unknown_version(self) -> None:
        """An old broker answers an unknown version with an error in the oldest format."""
        assert (
            connection_messages.read_api_versions(Reader(protocol.int16(35) + protocol.int32(0), 3, flexible=True)) is None
        )

    def test_error(self) -> None:
        """Any other error is left to librdkafka."""
        with pytest.raises(Unsupported, match="error 42"):
            connection_messages.read_api_versions(Reader(protocol.int16(42), 3, flexible=True))

    def test_software(self) -> None:
        """The request has the name and the version of the software."""
        assert connection_messages.api_versions_request(3, "1.2").body == b"\x0fpyspark-zkafka\x041.2\x00"
        assert connection_messages.api_versions_request(0, "1.2").body == b""


class TestSasl:
    """SaslHandshake and SaslAuthenticate connection_messages."""

    def test_handshake(self) -> None:
        """The request names a mechanism, the response all available ones."""
        assert connection_messages.sasl_handshake_request(1, "PLAIN").body == b"\x00\x05PLAIN"
        data = protocol.int16(33) + protocol.int32(2) + protocol.string("PLAIN") + protocol.string("GSSAPI")
        assert connection_messages.read_sasl_handshake(Reader(data)) == (33, ["PLAIN", "GSSAPI"])

    def test_tokens(self) -> None:
        """Tokens are encoded and decoded in the old and the new format."""
        assert connection_messages.sasl_authenticate_request(1, b"ab").body == b"\x00\x00\x00\x02ab"
        assert connection_messages.sasl_authenticate_request(2, b"ab").body == b"\x03ab\x00"
        old = connection_messages.read_sasl_authenticate(
            Reader(protocol.int16(0) + protocol.string(None) + protocol.nullable_bytes(b"x"))
        )
        assert (old.error, old.data, old.lifetime_ms) == (0, b"x", 0)
        data = protocol.int16(58) + protocol.string("no", True) + b"\x02x" + protocol.int64(60_000) + protocol.NO_TAGS
        new = connection_messages.read_sasl_authenticate(Reader(data, 2, flexible=True))
        assert (new.error, new.data, new.lifetime_ms) == (58, b"x", 60_000)

    def test_secrets(self) -> None:
        """The representation of an authentication does not contain its bytes."""
        assert "secret" not in repr(connection_messages.Authentication(0, b"secret"))
