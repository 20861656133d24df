-- Ceilings: places (leases) and what may start within a minute (rates).

-- Whether there is no place for one more; the member `own` is not counted.
local function is_full(ask, own)
  local taken = redis.call('SCARD', P .. 'lease:' .. ask.name)
  if taken < ask.limit then return false end
  return taken - redis.call('SISMEMBER', P .. 'lease:' .. ask.name, own) >= ask.limit
end

local function first_full(asks, own)
  for _, ask in ipairs(asks) do
    if is_full(ask, own) then return ask end
  end
  return nil
end

-- Index from 0 of the first candidate whose leases all have room, else -1.
local function first_open(candidates, own)
  for index, asks in ipairs(candidates) do
    if not first_full(asks, own) then return index - 1 end
  end
  return -1
end

-- Places that dead processes held are looked for only if none is free.
local function choose(candidates, own)
  local chosen = first_open(candidates, own)
  if chosen < 0 then
    bury()
    chosen = first_open(candidates, own)
  end
  return chosen
end

-- A rate counts in slots of five seconds, each until all of it is older than a minute. Kept as packed
-- {slot, count, slot, count, ...}, oldest first, counts above 0.
local SLOT_MS = 5000
local SLOTS = 13

-- The slots that still count, and the sum of their counts.
local function rate_window(name)
  local kept = redis.call('GET', P .. 'rate:' .. name)
  local parts, total = {}, 0
  if not kept then return parts, total end
  local oldest = math.floor(NOW / SLOT_MS) - SLOTS
  local all = cmsgpack.unpack(kept)
  for i = 1, #all, 2 do
    if all[i] > oldest then
      parts[#parts + 1] = all[i]
      parts[#parts + 1] = all[i + 1]
      total = total + all[i + 1]
    end
  end
  return parts, total
end

-- Seconds until `amount` fits below `limit` if nothing else starts, 0 = now; a minute if it never does.
local function rate_wait(limit, amount, now, parts, total)
  local room = limit - amount
  if total <= room then return 0 end
  for i = 1, #parts, 2 do
    total = total - parts[i + 1]
    if total <= room then return math.max(1, math.ceil(((parts[i] + SLOTS) * SLOT_MS - now) / 1000)) end
  end
  return 60
end

-- A negative amount takes from the newest slots first, and no more than there is.
local function rate_add(name, amount)
  local parts = rate_window(name)
  local slot = math.floor(NOW / SLOT_MS)
  if amount > 0 then
    if #parts == 0 or parts[#parts - 1] ~= slot then
      parts[#parts + 1] = slot
      parts[#parts + 1] = 0
    end
    parts[#parts] = parts[#parts] + amount
  end
  while amount < 0 and #parts > 0 do
    local taken = math.min(-amount, parts[#parts])
    parts[#parts] = parts[#parts] - taken
    amount = amount + taken
    if parts[#parts] == 0 then
      parts[#parts] = nil
      parts[#parts] = nil
    end
  end
  if #parts == 0 then
    redis.call('DEL', P .. 'rate:' .. name)
  else
    redis.call('SET', P .. 'rate:' .. name, cmsgpack.pack(parts), 'PX', SLOTS * SLOT_MS)
  end
end
