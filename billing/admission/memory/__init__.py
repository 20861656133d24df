"""The store of a single process: records in memory, and two thread-safe ports onto them.

`store` is the gateway's port, `workers` the workers' one; `core` is what both share: a lock and a clock, the
`book` with everything that changes together with a record, the `rates`. `mirroring` is for a third reader,
`billing.admission.mirror`. Must not import: Redis, models.
"""

from billing.admission.memory.store import MemoryStore

__all__ = ["MemoryStore"]
