-- ARGV: key, fingerprint, id, epoch, ms to keep, ticket. Returns packed {state, id of whose the key is};
-- late: its request was released, or this call withdrawn, before it came.
local key, fingerprint, id, epoch, kept_ms, ticket = unpack(ARGV)
if redis.call('EXISTS', P .. 'gone:' .. id, P .. 'gone:' .. ticket) > 0 then
  return cmsgpack.pack({'late', id})
end
local marker = marker_of(key)
if marker.id == id then
  redis.call('HSET', P .. 'idem:' .. key, 'e', epoch, 't', ticket)
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
write_marker(key, fingerprint, id, epoch, 'r', kept_ms)
redis.call('HSET', P .. 'idem:' .. key, 't', ticket)
if redis.call('SADD', P .. 'epochs', epoch) == 1 then
  redis.call('SET', P .. 'alive:' .. epoch, 1, 'PX', EPOCH_MS, 'NX')
end
return cmsgpack.pack({'mine', id})
