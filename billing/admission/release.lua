-- Give claimed records back: they may be claimed from now on.
-- KEYS: due     ARGV: id, id, ...
-- XX: an acknowledged record stays gone. LT: one whose claim ran out keeps its place.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i = 1, #ARGV do
  redis.call('ZADD', KEYS[1], 'XX', 'LT', now, ARGV[i])
end
return #ARGV
