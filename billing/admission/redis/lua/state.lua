-- ARGV: id. Returns state, payload, epoch; nils when there is no such record.
return redis.call('HMGET', P .. 'rec:' .. ARGV[1], 's', 'p', 'e')
