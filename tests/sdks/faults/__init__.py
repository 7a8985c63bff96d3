"""The faults of the SDKs of other languages, as data: each with the place in the SDK's source that shows it.

As in tests/peers/faults.py, a fault removes something from a comparison, and shows when the SDK talks to
itself or to an agent of ours without a gateway between. One module for each SDK.
"""

from tests.peers.faults import Fault
from tests.sdks.faults import go03, go2, java, js, rust

FAULTS: tuple[Fault, ...] = (*go2.FAULTS, *go03.FAULTS, *rust.FAULTS, *js.FAULTS, *java.FAULTS)
