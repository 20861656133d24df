-- ARGV: packed {epoch, ticket, id, account, hold, leases, rates, candidates}, record. All of it or nothing;
-- tested in this order: account, leases, rates, balance, candidates.
-- Returns packed {kind, ...}: admitted, candidate, balance, open sum | limit, name, limit, seconds to wait |
-- balance, balance, open sum | unknown: the account | late: it was withdrawn before it came.
local epoch, ticket, id, account, hold, leases, rates, candidates = unpack(cmsgpack.unpack(ARGV[1]))
local key = P .. 'rec:' .. id

local known = redis.call('HMGET', key, 's', 'c', 'a')
if known[1] then
  redis.call('HSET', key, 't', ticket)
  local balance, open = money_of(known[3])
  return cmsgpack.pack({'admitted', tonumber(known[2] or -1), balance or '0', open or '0'})
end
if redis.call('EXISTS', P .. 'gone:' .. ticket) == 1 then return cmsgpack.pack({'late'}) end
local balance, open = money_of(account)
if not balance then return cmsgpack.pack({'unknown'}) end

local full = first_full(leases, '')
if full then
  bury()
  full = first_full(leases, '')
end
if full then return cmsgpack.pack({'limit', full.name, full.limit, 1}) end
for _, rate in ipairs(rates) do
  local wait = rate_wait(rate.limit, rate.amount, NOW, rate_window(rate.name))
  if wait > 0 then return cmsgpack.pack({'limit', rate.name, rate.limit, wait}) end
end
if account ~= '0' and hold > math.max(balance - open, 0) then
  return cmsgpack.pack({'balance', balance, open})
end
local chosen = -1
if #candidates > 0 then
  chosen = choose(candidates, id .. '|')
  if chosen < 0 then return cmsgpack.pack({'limit', '', 0, 1}) end
end

local held = {}
for _, lease in ipairs(leases) do take_lease(id, held, '*', lease.name) end
if chosen >= 0 then
  for _, lease in ipairs(candidates[chosen + 1]) do take_lease(id, held, '', lease.name) end
end
for _, rate in ipairs(rates) do rate_add(rate.name, rate.amount) end
redis.call('HSET', key, 's', 'r', 'e', epoch, 'a', account, 'p', ARGV[2], 'c', chosen, 't', ticket,
  'l', #held > 0 and cmsgpack.pack(held) or '')
set_open(id, account, hold)
enter(epoch, id)
if account ~= '0' then open = redis.call('HGET', P .. 'open', account) or '0' end
return cmsgpack.pack({'admitted', chosen, balance, open})
