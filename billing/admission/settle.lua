-- Keep records until they are acknowledged.
-- KEYS: payloads (hash id -> payload), due (sorted set id -> ms from which it may be claimed)
-- ARGV: id, payload, id, payload, ...
-- NX: a record that is settled again keeps its place in the queue, or its claim.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i = 1, #ARGV, 2 do
  redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
  redis.call('ZADD', KEYS[2], 'NX', now, ARGV[i])
end
return #ARGV / 2
