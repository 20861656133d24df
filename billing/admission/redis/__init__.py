"""The store of many processes: Redis, changed only by the Lua scripts in `lua/`, each an atomic step.

`port` is the gateway's side, over one connection that `store_task` owns; `wire` talks over it.
`workers` is the other side.
Must not import: models, the in-process store.
"""

from billing.admission.redis.port import RedisAdmissionPort
from billing.admission.redis.workers import RedisOpenRecords

__all__ = ["RedisAdmissionPort", "RedisOpenRecords"]
