"""A listener with TLS and a login by password: its certificate, its user, and the properties of brokers and clients."""

from __future__ import annotations

import os
import secrets
import subprocess
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from pyspark_zkafka.testing.conditions import NO_KEYTOOL, NOT_READY
from pyspark_zkafka.testing.processes import LOOPBACK

NAME = "SECURE"
PROTOCOL = "SASL_SSL"

_MECHANISM = "SCRAM-SHA-256"
_ITERATIONS = 4096
_USER = "alice"
_ALIAS = "broker"
_PASSWORD_VARIABLE = "KEY_STORE_PASSWORD"
_TIMEOUT_S = 60
_REMEDY = "install a complete Java 17, or start the cluster without secure"


@dataclass(frozen=True)
class SecureListener:
    """The files and the password of a cluster's secure listener. The key store has the same password as the user."""

    folder: Path
    password: str = field(repr=False)

    @classmethod
    def create(cls, folder: Path, java: Path) -> SecureListener:
        """Create a key store and a certificate in a private folder, with Java's keytool. Raises `NO_KEYTOOL`."""
        created = cls(folder, secrets.token_urlsafe(12))
        store = ["-alias", _ALIAS, "-keystore", str(created._key_store), "-storepass:env", _PASSWORD_VARIABLE]
        names = f"san=ip:{LOOPBACK},dns:localhost"
        key = ["-keyalg", "EC", "-groupname", "secp256r1", "-dname", "CN=localhost", "-validity", "3650"]
        is_authority = ["-ext", "bc:c=ca:true", "-ext", "ku:c=digitalSignature,keyCertSign"]  # it has signed itself
        created._keytool(java, ["-genkeypair", *store, "-storetype", "PKCS12", *key, "-ext", names, *is_authority])
        created._keytool(java, ["-exportcert", "-rfc", *store, "-file", str(created._certificate)])
        return created

    def broker_properties(self) -> dict[str, str]:
        """Return the settings of a broker that has the listener."""
        settings = {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(self._key_store),
            "ssl.keystore.password": self.password,
            "ssl.key.password": self.password,  # else Kafka uses an unprefixed ssl.key.password
            "sasl.enabled.mechanisms": _MECHANISM,
            f"{_MECHANISM.lower()}.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
        }
        return {f"listener.name.{NAME.lower()}.{name}": value for name, value in settings.items()}

    def client_properties(self, bootstrap_servers: str) -> dict[str, str]:
        """Return the settings of a client that logs in, in librdkafka's names."""
        return {
            "bootstrap.servers": bootstrap_servers,
            "security.protocol": PROTOCOL,
            "ssl.ca.location": str(self._certificate),
            "sasl.mechanism": _MECHANISM,
            "sasl.username": _USER,
            "sasl.password": self.password,
        }

    def add_user(self, admin: AdminClient, timeout_s: float) -> None:
        """Create the user, which brokers know some time later. Raises `NOT_READY`."""
        credentials = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, _ITERATIONS)
        change = UserScramCredentialUpsertion(_USER, credentials, self.password.encode())
        try:
            admin.alter_user_scram_credentials([change])[_USER].result(timeout_s)
        except (KafkaException, FutureTimeoutError) as exc:
            why = str(exc) or f"no answer in {timeout_s:.0f} s"
            raise NOT_READY(
                f"The brokers did not create the user of the secure listener: {why}; raise startup_timeout_s on a slow or "
                "busy machine"
            ) from exc

    @property
    def _key_store(self) -> Path:
        return self.folder / "secure.p12"

    @property
    def _certificate(self) -> Path:
        return self.folder / "certificate.pem"

    def _keytool(self, java: Path, arguments: list[str]) -> None:
        tool = java.resolve().with_name("keytool")
        try:
            subprocess.run(
                [str(tool), *arguments], env={**os.environ, _PASSWORD_VARIABLE: self.password}, stdin=subprocess.DEVNULL,
                capture_output=True, text=True, errors="replace", check=True, timeout=_TIMEOUT_S,
            )  # fmt: skip
        except subprocess.CalledProcessError as exc:
            output = (exc.stdout + exc.stderr).strip()
            raise NO_KEYTOOL(f"{tool} ended with {exc.returncode}; {_REMEDY}; its output is\n{output}") from None
        except OSError as exc:
            raise NO_KEYTOOL(f"{tool} did not run: {exc.strerror}; {_REMEDY}") from exc
        except subprocess.TimeoutExpired as exc:
            raise NO_KEYTOOL(f"{tool} did not end within {_TIMEOUT_S} s; {_REMEDY}") from exc
