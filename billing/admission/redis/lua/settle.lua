-- Keep records until they are acknowledged. ARGV: id, account, amount, payload, ...
-- A record that is settled again keeps its place in the queue, or its claim.
for i = 1, #ARGV, 4 do
  local id, account, key = ARGV[i], ARGV[i + 1], P .. 'rec:' .. ARGV[i]
  local record = redis.call('HMGET', key, 's', 'e', 'a', 'l')
  if record[1] == 'r' then
    leave(record[2], id)
    drop_leases(id, record[4], false)
  end
  if record[3] and record[3] ~= account then set_open(id, record[3], 0) end
  set_open(id, account, tonumber(ARGV[i + 2]))
  redis.call('HSET', key, 's', 's', 'e', '', 'a', account, 'p', ARGV[i + 3], 'l', '')
  redis.call('ZADD', P .. 'due', 'NX', NOW, id)
end
return 1
