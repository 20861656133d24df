-- ARGV: key, fingerprint, id, epoch, ms to keep. Returns packed {state, id of whose the key is}; late: it was
-- released before it came.
local key, fingerprint, id, epoch, kept_ms = unpack(ARGV)
local marker = marker_of(key)
if marker.id == id then
  redis.call('HSET', P .. 'idem:' .. key, 'e', epoch)
  return cmsgpack.pack({'mine', id})
end
if marker.id and not (marker.state == 'r' and is_dead(marker.epoch)) then
  local state = 'unanswered'
  if marker.fingerprint ~= fingerprint then
    state = 'other'
  elseif marker.state == 'r' or (marker.state == 'e' and not is_dead(marker.epoch)) then
    state = 'running'
  elseif redis.call('EXISTS', P .. 'answer:' .. marker.id) == 1 then
    state = 'answered'
  end
  return cmsgpack.pack({state, marker.id})
end
if redis.call('EXISTS', P .. 'gone:' .. id) == 1 then return cmsgpack.pack({'late', id}) end
write_marker(key, fingerprint, id, epoch, 'r', kept_ms)
if redis.call('SADD', P .. 'epochs', epoch) == 1 then
  redis.call('SET', P .. 'alive:' .. epoch, 1, 'PX', EPOCH_MS, 'NX')
end
return cmsgpack.pack({'mine', id})
