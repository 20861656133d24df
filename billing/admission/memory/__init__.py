"""The store of a single process: one thread-safe object serves both ports. Must not import: Redis, models."""

from billing.admission.memory.store import MemoryStore

__all__ = ["MemoryStore"]
