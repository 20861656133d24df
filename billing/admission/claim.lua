-- Claim the records that wait longest, for a while, by the store's own clock.
-- KEYS: payloads, due     ARGV: limit, ms of the claim
-- Returns id, payload, id, payload, ...
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local answer = {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, ARGV[1])) do
  local payload = redis.call('HGET', KEYS[1], id)
  if payload then
    redis.call('ZADD', KEYS[2], now + ARGV[2], id)
    answer[#answer + 1] = id
    answer[#answer + 1] = payload
  else
    redis.call('ZREM', KEYS[2], id)
  end
end
return answer
