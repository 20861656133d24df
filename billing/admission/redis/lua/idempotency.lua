-- Markers of idempotency keys.
--
-- idem:<key>       hash that expires   f fingerprint, r request id, e epoch of its process,
--                                      s state (r running, e ended, d done), t ticket of its `begin`
-- gone:<id>        string that expires: a request that gave its key back
-- answer:<id>      string that expires: the sealed answer of a request
-- answers          zset   size|id of kept answers -> ms at which they were kept
-- answers_size     sum of the sizes in `answers`

local function marker_of(key)
  local marker = redis.call('HMGET', P .. 'idem:' .. key, 'f', 'r', 'e', 's')
  return {fingerprint = marker[1], id = marker[2], epoch = marker[3], state = marker[4]}
end

-- Not while nobody could be heard, nor in the grace time after that: `claim_abandoned` waits as long.
local function is_dead(epoch)
  if redis.call('EXISTS', P .. 'alive:' .. epoch) == 1 then return false end
  return not is_silent() and NOW >= tonumber(redis.call('GET', P .. 'grace_until') or 0)
end

local function drop_answer(member)
  local size, id = string.match(member, '^(%d+)|(.*)$')
  redis.call('DEL', P .. 'answer:' .. id)
  if redis.call('ZREM', P .. 'answers', member) == 1 then redis.call('DECRBY', P .. 'answers_size', size) end
end

local function write_marker(key, fingerprint, id, epoch, state, kept_ms)
  redis.call('HSET', P .. 'idem:' .. key, 'f', fingerprint, 'r', id, 'e', epoch, 's', state)
  redis.call('PEXPIRE', P .. 'idem:' .. key, kept_ms)
end
