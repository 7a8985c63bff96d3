"""Callers with a client certificate (mutual TLS). The listener has verified it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from a2a_bridge.core.call import Principal
from a2a_bridge.core.callers import Presented
from a2a_bridge.core.extras import load
from a2a_bridge.pb import lf_a2a_v1 as hub

#: certificates whose principals are remembered
_REMEMBERED = 1024


class ClientCertificates:
    """Identifies callers by their client certificate; see `Method`. Raises MissingExtraError without
    cryptography.

    The principal is the first URI of the subject alternative names (SPIFFE), else the first host name, else
    the subject (RFC 4514).
    """

    scheme_name = "mutualTLS"
    parameters: frozenset[str] = frozenset()
    challenge = ""

    def __init__(self) -> None:
        x509 = load("cryptography.x509", "auth")
        self._principal_of = lru_cache(_REMEMBERED)(lambda certificate: _principal(x509, certificate))

    def scheme(self) -> hub.SecurityScheme:
        """How the card describes it."""
        text = "A client certificate of an authority that this server trusts."
        return hub.SecurityScheme(mtls_security_scheme=hub.MutualTlsSecurityScheme(description=text))

    async def identify(self, presented: Presented) -> Principal | None:
        """The principal of the certificate; None without one that names anybody."""
        found = presented.certificate() if presented.certificate is not None else None
        return None if found is None else self._principal_of(found)


def _principal(x509: Any, certificate: bytes) -> Principal | None:
    """The principal of a certificate (DER); None if it names nobody."""
    found = x509.load_der_x509_certificate(certificate)
    subject = found.subject.rfc4514_string()
    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names = None
    uris, hosts = (
        [] if names is None else names.get_values_for_type(kind)
        for kind in (x509.UniformResourceIdentifier, x509.DNSName)
    )
    name = next((one for one in (*uris, *hosts, subject) if one), "")
    return Principal(name, {"subject": subject}) if name else None
