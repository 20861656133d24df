-- Claim the settled records that wait longest. ARGV: limit, ms of the claim.
-- Returns id, payload, account, amount, ...
local answer = {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', P .. 'due', '-inf', NOW, 'LIMIT', 0, ARGV[1])) do
  local record = redis.call('HMGET', P .. 'rec:' .. id, 's', 'p', 'a')
  if record[1] == 's' then
    redis.call('ZADD', P .. 'due', NOW + ARGV[2], id)
    local amount = redis.call('HGET', P .. 'amounts:' .. record[3], id) or '0'
    for _, part in ipairs({id, record[2], record[3], amount}) do answer[#answer + 1] = part end
  else
    redis.call('ZREM', P .. 'due', id)
  end
end
return answer
