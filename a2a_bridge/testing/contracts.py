"""The contract suites in one place: subclass one, name the subclass `Test…`, run pytest. No tests of its own.

They need pytest and pytest-asyncio in auto mode, which the product itself does not depend on.
"""

from a2a_bridge.testing.binding_contract import BindingContract
from a2a_bridge.testing.bus_contract import EventBusContract
from a2a_bridge.testing.service_contract import ServiceContract
from a2a_bridge.testing.store_contracts import PushConfigStoreContract, TaskStoreContract

__all__ = [
    "BindingContract",
    "EventBusContract",
    "PushConfigStoreContract",
    "ServiceContract",
    "TaskStoreContract",
]
