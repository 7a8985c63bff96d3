"""The contract suites in one place: subclass one, name the subclass `Test…`, run pytest. They need pytest and
pytest-asyncio in auto mode, which the product itself does not depend on.
"""

from a2a_bridge.testing.adapter_contract import AdapterContract
from a2a_bridge.testing.binding_contract import BindingContract
from a2a_bridge.testing.outbox_contract import DurableOutboxContract, OutboxContract
from a2a_bridge.testing.service_contract import ServiceContract
from a2a_bridge.testing.store_contract import DurableStoreContract, SharedStoreContract, StoreContract

__all__ = [
    "AdapterContract",
    "BindingContract",
    "DurableOutboxContract",
    "DurableStoreContract",
    "OutboxContract",
    "ServiceContract",
    "SharedStoreContract",
    "StoreContract",
]
