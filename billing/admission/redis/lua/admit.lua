-- ARGV: epoch, ticket, id, account, hold, record, packed {leases, rates, candidates}. All of it or nothing; tested in this order: account, leases, rates,
-- balance, candidates. Returns packed {kind, ...}: see the port.
local id, account, hold = ARGV[3], ARGV[4], tonumber(ARGV[5])
local leases, rates, candidates = unpack(cmsgpack.unpack(ARGV[7]))
local key = P .. 'rec:' .. id

local known = redis.call('HMGET', key, 's', 'c', 'a')
if known[1] then
  redis.call('HSET', key, 't', ARGV[2])
  local balance, open = money_of(known[3])
  return cmsgpack.pack({'admitted', tonumber(known[2] or -1), balance or '0', open or '0'})
end
if redis.call('EXISTS', P .. 'gone:' .. ARGV[2]) == 1 then return cmsgpack.pack({'late'}) end
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
redis.call('HSET', key, 's', 'r', 'e', ARGV[1], 'a', account, 'p', ARGV[6], 'c', chosen, 't', ARGV[2],
  'l', #held > 0 and cmsgpack.pack(held) or '')
set_open(id, account, hold)
enter(ARGV[1], id)
if account ~= '0' then open = redis.call('HGET', P .. 'open', account) or '0' end
return cmsgpack.pack({'admitted', chosen, balance, open})
