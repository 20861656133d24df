"""The HTTP front: sockets, protocol class, the slim Django handler, leaving clients, ending a process.

Knows nothing of dialects' answers, channels or attempts. A request enters through `server`, `handler` and
`middleware`; what a view answers leaves through `sending`, or writes itself.
"""
