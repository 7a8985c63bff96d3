from types import SimpleNamespace

flow_config = SimpleNamespace(input_provider=None, hitl_provider=None)
