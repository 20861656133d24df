-- ARGV: epoch. Records it left behind are found like those of a dead process.
redis.call('DEL', P .. 'alive:' .. ARGV[1])
if redis.call('EXISTS', P .. 'run:' .. ARGV[1]) == 0 then redis.call('SREM', P .. 'epochs', ARGV[1]) end
return 1
