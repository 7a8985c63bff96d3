"""Faults of the Rust SDK: crates a2a-client-lf 0.2.9, a2a-server-lf 0.5.3, a2a-grpc 0.3.11."""

from tests.peers.faults import CLIENT, EVERY, Fault, rejected, without_empty_containers
from tests.peers.processes import HTTP_JSON

RUST = "a2a-rs 0.5.3"

FAULTS: tuple[Fault, ...] = (
    Fault(
        "an error in a stream is read as a StreamResponse, which fails (a2a-client-lf, src/jsonrpc.rs, line 417)",
        CLIENT,
        RUST,
        (HTTP_JSON,),
        rejected,
        "errors",
        "* rejected",
    ),
    Fault(
        "empty metadata of a part is not written (a2a-lf, src/types.rs, line 299)",
        CLIENT,
        RUST,
        EVERY,
        without_empty_containers,
        sometimes=True,
    ),
)
