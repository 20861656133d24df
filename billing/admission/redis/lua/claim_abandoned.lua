-- Claim running records of expired epochs, outside the grace time. ARGV: limit, ms of the claim.
-- Returns id, record, ...
local answer = {}
local grace = redis.call('GET', P .. 'grace_until') or 0
if is_silent() or NOW < tonumber(grace) then return answer end
bury()
for _, id in ipairs(redis.call('ZRANGEBYSCORE', P .. 'lost', '-inf', NOW, 'LIMIT', 0, ARGV[1])) do
  redis.call('ZADD', P .. 'lost', NOW + ARGV[2], id)
  answer[#answer + 1] = id
  answer[#answer + 1] = redis.call('HGET', P .. 'rec:' .. id, 'p')
end
return answer
