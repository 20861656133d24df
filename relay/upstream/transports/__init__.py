"""Transports: HTTP to an upstream, behind httpx's types. `contract.py` says what each promises, `build.py`
picks one; all pass the contract tests in tests/relay/upstream/transport_contract.
"""
