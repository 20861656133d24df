-- Write running records again, whatever the limits say. A settled record outranks them.
-- ARGV: epoch, then id, account, hold, record, packed {holder, lease, ...}, ...
for at = 2, #ARGV, 5 do
  local id, account, key = ARGV[at], ARGV[at + 1], P .. 'rec:' .. ARGV[at]
  local record = redis.call('HMGET', key, 's', 'e', 'a', 'l')
  if record[1] ~= 's' then
    if record[3] and record[3] ~= account then set_open(id, record[3], 0) end
    set_open(id, account, tonumber(ARGV[at + 2]))
    redis.call('HSET', key, 's', 'r', 'a', account, 'p', ARGV[at + 3])
    if record[1] then
      move(id, record[2], ARGV[1])
    else
      redis.call('HSET', key, 'e', ARGV[1], 'c', -1, 't', '')
      enter(ARGV[1], id)
    end
    local held = held_by(record[4])
    local wanted = cmsgpack.unpack(ARGV[at + 4])
    for i = 1, #wanted, 2 do take_lease(id, held, wanted[i], wanted[i + 1]) end
    keep_leases(id, held)
  end
end
return 1
