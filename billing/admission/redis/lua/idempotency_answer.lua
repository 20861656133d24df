-- ARGV: id. Returns the sealed answer, or nothing.
return redis.call('GET', P .. 'answer:' .. ARGV[1])
