-- Write running records again, whatever the limits say. ARGV: epoch, packed list of
-- {id, account, hold, record, {holder, lease, ...}}. A settled record outranks them.
for _, old in ipairs(cmsgpack.unpack(ARGV[2])) do
  local id, account, key = old[1], old[2], P .. 'rec:' .. old[1]
  local record = redis.call('HMGET', key, 's', 'e', 'a', 'l')
  if record[1] ~= 's' then
    if record[3] and record[3] ~= account then set_open(id, record[3], 0) end
    set_open(id, account, tonumber(old[3]))
    redis.call('HSET', key, 's', 'r', 'a', account, 'p', old[4])
    if record[1] then
      move(id, record[2], ARGV[1])
    else
      redis.call('HSET', key, 'e', ARGV[1], 'c', -1, 't', '')
      enter(ARGV[1], id)
    end
    local held = held_by(record[4])
    for i = 1, #old[5], 2 do take_lease(id, held, old[5][i], old[5][i + 1]) end
    keep_leases(id, held)
  end
end
return 1
