-- ARGV: a lease. Returns packed {id|holder, ...}.
bury()
return cmsgpack.pack(redis.call('SMEMBERS', P .. 'lease:' .. ARGV[1]))
