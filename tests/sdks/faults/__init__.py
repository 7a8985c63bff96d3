"""The faults of the SDKs of other languages, with the place in the source; see tests/peers/faults.py."""

from tests.peers.faults import Fault
from tests.sdks.faults import go03, go2, java, js, rust

FAULTS: tuple[Fault, ...] = (*go2.FAULTS, *go03.FAULTS, *rust.FAULTS, *js.FAULTS, *java.FAULTS)
