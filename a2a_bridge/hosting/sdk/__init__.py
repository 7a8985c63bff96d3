"""Executors of the official SDK, a2a-sdk 1.x and 0.3.x, as executors of this engine.

Rules:
1. Executors are recognised by the modules of their classes. The SDK is imported only if one is given.
2. The SDK that is installed decides the types: `v1.py` for 1.x, `v0_3.py` for 0.3.x.
3. An executor of the SDK keeps its contract, except for what `docs/how-to/serve-sdk-executors.md` lists.
   Each of these differences is one warning in the log, with the advice.
"""

from a2a_bridge.hosting.sdk.executor import adopt
from a2a_bridge.hosting.sdk.types import SdkAgentExecutor, card_of, executor_in, is_executor, remedy

__all__ = ["SdkAgentExecutor", "adopt", "card_of", "executor_in", "is_executor", "remedy"]
