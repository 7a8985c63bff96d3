"""Certificates made for a test. No tests."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


@dataclass(frozen=True)
class Identity:
    """A certificate of 127.0.0.1 that is its own authority, and its key, both PEM."""

    certificate: bytes
    key: bytes

    def written(self, folder: Path, name: str) -> tuple[str, str]:
        """The paths of both as files."""
        certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
        certificate.write_bytes(self.certificate)
        key.write_bytes(self.key)
        return str(certificate), str(key)


def new_identity(
    *, begins: float = -1, ends: float = 1, address: str = "127.0.0.1", uri: str = ""
) -> Identity:
    """A new certificate. begins, ends: days from now. uri: a further name, such as a SPIFFE id."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a2a-bridge test")])
    now = datetime.datetime.now(datetime.UTC)
    names: list[x509.GeneralName] = [x509.IPAddress(ipaddress.ip_address(address))]
    if uri:
        names.append(x509.UniformResourceIdentifier(uri))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + datetime.timedelta(days=begins))
        .not_valid_after(now + datetime.timedelta(days=ends))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Identity(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )
