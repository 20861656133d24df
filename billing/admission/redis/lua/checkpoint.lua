-- ARGV: epoch, then id, hold, record, ... Returns packed ids whose raised hold the balance does not cover.
-- An account that is not known here (any more) covers it: what runs goes on.
local refused = {}
for i = 2, #ARGV, 3 do
  local id, hold = ARGV[i], tonumber(ARGV[i + 1])
  local record = redis.call('HMGET', P .. 'rec:' .. id, 's', 'e', 'a')
  if record[1] == 'r' then
    local account = record[3]
    local raised = hold - (redis.call('HGET', P .. 'amounts:' .. account, id) or 0)
    local balance, open = money_of(account)
    if raised > 0 and account ~= '0' and balance and raised > balance - open then
      refused[#refused + 1] = id
    else
      set_open(id, account, hold)
    end
    redis.call('HSET', P .. 'rec:' .. id, 'p', ARGV[i + 2])
    move(id, record[2], ARGV[1])
  end
end
return cmsgpack.pack(refused)
