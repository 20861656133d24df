-- Stands before every script of this folder. KEYS[1]: what all keys begin with.
--
-- rec:<id>         hash   s state (r running, s settled), e epoch ('' once settled), a account, p payload,
--                         c candidate, t ticket of its admission, l packed {holder, lease, holder, lease, ...}
-- amounts:<acct>   hash   id -> what the record holds or costs, nano-dollars; account 0: nobody pays
-- open             hash   account -> sum of its amounts, changed only here, with the amount
-- balance, seq     hash   account -> balance, number of the ledger entry it is from
-- due              zset   settled id -> ms from which it may be claimed
-- lost             zset   running id of an expired epoch -> ms from which it may be claimed
-- epochs           set    those that may be alive     run:<epoch>   set of its running ids
-- alive:<epoch>    string that expires                dead:<epoch>  string: expired and cleared away
-- lease:<name>     set    of id|holder                rate:<name>   packed slots
-- boot             string that is gone when the store forgot everything
-- last_beat        ms     grace_until  ms             gone:<ticket> of a call withdrawn before it came
--
-- Times are ms of the store's own clock. Numbers of Lua are exact up to 2^53 (9 million USD in one amount);
-- sums are Redis's own 64 bit integers.
local P = KEYS[1]
local clock = redis.call('TIME')
local NOW = clock[1] * 1000 + math.floor(clock[2] / 1000)
local EPOCH_MS = 30000

local function set_open(id, account, nano)
  local old = 0
  if nano == 0 then
    old = tonumber(redis.call('HGET', P .. 'amounts:' .. account, id) or 0)
    redis.call('HDEL', P .. 'amounts:' .. account, id)
  elseif redis.call('HSETNX', P .. 'amounts:' .. account, id, nano) == 0 then
    old = tonumber(redis.call('HGET', P .. 'amounts:' .. account, id))
    redis.call('HSET', P .. 'amounts:' .. account, id, nano)
  end
  if account ~= '0' and nano ~= old then redis.call('HINCRBY', P .. 'open', account, nano - old) end
end

-- Balance and open sum as text, or nothing for an account that is not known here.
local function money_of(account)
  if account == '0' then return '0', '0' end
  local balance = redis.call('HGET', P .. 'balance', account)
  if not balance then return nil end
  return balance, redis.call('HGET', P .. 'open', account) or '0'
end

-- A record runs in this epoch. One that nobody has heard of begins with its first record.
local function enter(epoch, id)
  redis.call('SADD', P .. 'run:' .. epoch, id)
  if redis.call('SADD', P .. 'epochs', epoch) == 1 then
    redis.call('SET', P .. 'alive:' .. epoch, 1, 'PX', EPOCH_MS, 'NX')
  end
end

local function leave(epoch, id)
  redis.call('SREM', P .. 'run:' .. epoch, id)
  redis.call('ZREM', P .. 'lost', id)
end

-- The process that runs the record has this epoch now.
local function move(id, old, epoch)
  if old ~= epoch or redis.call('ZREM', P .. 'lost', id) == 1 then
    leave(old, id)
    enter(epoch, id)
    redis.call('HSET', P .. 'rec:' .. id, 'e', epoch)
  end
end

local function held_by(packed)
  if not packed or packed == '' then return {} end
  return cmsgpack.unpack(packed)
end

-- Give back what one holder has, or everybody (holder false). Returns what is left.
local function drop_leases(id, packed, holder)
  local kept = {}
  local held = held_by(packed)
  for i = 1, #held, 2 do
    if holder and held[i] ~= holder then
      kept[#kept + 1] = held[i]
      kept[#kept + 1] = held[i + 1]
    else
      redis.call('SREM', P .. 'lease:' .. held[i + 1], id .. '|' .. held[i])
    end
  end
  return kept
end

local function take_lease(id, held, holder, name)
  if redis.call('SADD', P .. 'lease:' .. name, id .. '|' .. holder) == 1 then
    held[#held + 1] = holder
    held[#held + 1] = name
  end
end

local function keep_leases(id, held)
  redis.call('HSET', P .. 'rec:' .. id, 'l', #held > 0 and cmsgpack.pack(held) or '')
end

local function forget(id, state, epoch, account, packed)
  set_open(id, account, 0)
  drop_leases(id, packed, false)
  if state == 's' then redis.call('ZREM', P .. 'due', id) else leave(epoch, id) end
  redis.call('DEL', P .. 'rec:' .. id)
end

-- Records of expired epochs hold no leases any more, and wait to be booked as abandoned.
local function bury()
  for _, epoch in ipairs(redis.call('SMEMBERS', P .. 'epochs')) do
    if redis.call('EXISTS', P .. 'alive:' .. epoch) == 0 then
      for _, id in ipairs(redis.call('SMEMBERS', P .. 'run:' .. epoch)) do
        drop_leases(id, redis.call('HGET', P .. 'rec:' .. id, 'l'), false)
        redis.call('HSET', P .. 'rec:' .. id, 'l', '')
        redis.call('ZADD', P .. 'lost', 'NX', NOW, id)
      end
      redis.call('DEL', P .. 'run:' .. epoch)
      redis.call('SREM', P .. 'epochs', epoch)
      redis.call('SET', P .. 'dead:' .. epoch, 1, 'PX', 3600000)
    end
  end
end

local function is_silent()
  local last = redis.call('GET', P .. 'last_beat')
  return not last or NOW - last > 10000
end

-- Newer states win. ARGV from an index on: account, balance, seq, ...
local function put_accounts(from)
  for i = from, #ARGV, 3 do
    local known = redis.call('HGET', P .. 'seq', ARGV[i])
    if not known or tonumber(known) < tonumber(ARGV[i + 2]) then
      redis.call('HSET', P .. 'balance', ARGV[i], ARGV[i + 1])
      redis.call('HSET', P .. 'seq', ARGV[i], ARGV[i + 2])
    end
  end
end
