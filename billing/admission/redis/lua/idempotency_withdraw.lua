-- ARGV: key, id, ticket of a `begin` that nobody waits for any more. One that arrives after this (an old
-- connection's last words) finds its ticket spent; a later `begin` of the same request keeps the key.
local marker = redis.call('HMGET', P .. 'idem:' .. ARGV[1], 'r', 's', 't')
redis.call('SET', P .. 'gone:' .. ARGV[3], 1, 'PX', 60000)
if marker[1] == ARGV[2] and marker[2] == 'r' and marker[3] == ARGV[3] then
  redis.call('DEL', P .. 'idem:' .. ARGV[1])
end
return 1
