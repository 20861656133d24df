-- ARGV: epoch ('' = a worker or beat), an id for a store that forgot its own. Returns packed
-- {boot id, whether the epoch had expired or was never there}.
if is_silent() then redis.call('SET', P .. 'grace_until', NOW + 60000) end
redis.call('SET', P .. 'last_beat', NOW)
redis.call('SET', P .. 'boot', ARGV[2], 'NX')
local lost = false
if ARGV[1] ~= '' then
  local alive = P .. 'alive:' .. ARGV[1]
  lost = redis.call('EXISTS', alive) == 0
  lost = redis.call('DEL', P .. 'dead:' .. ARGV[1]) == 1 or lost
  redis.call('SET', alive, 1, 'PX', EPOCH_MS)
  redis.call('SADD', P .. 'epochs', ARGV[1])
end
return cmsgpack.pack({redis.call('GET', P .. 'boot'), lost})
