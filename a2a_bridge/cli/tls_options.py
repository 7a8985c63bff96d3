"""From the flags `--ssl-…` to the TLS of a server, of either kind. It loads no protobuf."""

from __future__ import annotations

import typer

from a2a_bridge.bindings.server_tls import Part, ServerTls, TlsFileError
from a2a_bridge.cli.flags import ClientCertificate, ServerFlags

_FLAGS: dict[Part, str] = {
    "certificate": "--ssl-certfile",
    "key": "--ssl-keyfile",
    "client_ca": "--ssl-ca-certs",
}


def server_tls(flags: ServerFlags) -> ServerTls | None:
    """The TLS of a server; None without a certificate.

    Raises typer.BadParameter that names the flag whose file cannot be used.
    """
    certificate, key, clients = flags.ssl_certfile, flags.ssl_keyfile, flags.ssl_ca_certs
    if certificate is None:
        for value, flag in ((key, "--ssl-keyfile"), (clients, "--ssl-ca-certs")):
            if value:
                raise typer.BadParameter("needs --ssl-certfile", param_hint=flag)
    optional = flags.ssl_cert_reqs is ClientCertificate.OPTIONAL
    if optional and clients is None:
        raise typer.BadParameter("needs --ssl-ca-certs", param_hint="--ssl-cert-reqs")
    if certificate is None:
        return None
    try:
        return ServerTls(certificate, key or "", clients or "", cert_reqs=flags.ssl_cert_reqs.value)
    except TlsFileError as error:
        hint = _FLAGS[error.part]
        if error.part == "certificate" and key is None and "private key" in str(error):
            raise typer.BadParameter(f"{error}; --ssl-keyfile names its file", param_hint=hint) from None
        raise typer.BadParameter(str(error), param_hint=hint) from None
