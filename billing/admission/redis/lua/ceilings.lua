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

local MINUTE_MS = 60000

local function faded(before, elapsed)
  return math.floor(before * (MINUTE_MS - elapsed) / MINUTE_MS)
end

-- Seconds until `amount` fits below `limit` if nothing else starts, 0 = now; a minute if it never does.
local function rate_wait(limit, amount, current, before, elapsed)
  local room = limit - amount
  if current + faded(before, elapsed) <= room then return 0 end
  if room < 0 then return 60 end
  local wait = MINUTE_MS - elapsed
  if current <= room then
    wait = wait - math.floor((room - current) * MINUTE_MS / before)
  else
    wait = wait + MINUTE_MS - math.floor(room * MINUTE_MS / current)
  end
  return math.max(1, math.ceil(wait / 1000))
end

-- What counts of this minute and of the one before, and ms since this one began.
local function rate_window(name)
  local minute = math.floor(NOW / MINUTE_MS)
  local elapsed = NOW - minute * MINUTE_MS
  local kept = redis.call('GET', P .. 'rate:' .. name)
  if not kept then return 0, 0, elapsed end
  local then_, current, before = string.match(kept, '^(%S+) (%S+) (%S+)$')
  then_, current, before = tonumber(then_), tonumber(current), tonumber(before)
  if then_ == minute then return current, before, elapsed end
  if then_ == minute - 1 then return 0, math.max(current, 0), elapsed end
  return 0, 0, elapsed
end

-- A negative amount takes away no more than what still counts.
local function rate_add(name, amount)
  local current, before, elapsed = rate_window(name)
  current = current + amount
  if amount < 0 then current = math.max(current, -faded(before, elapsed)) end
  local kept = string.format('%.0f %.0f %.0f', math.floor(NOW / MINUTE_MS), current, before)
  redis.call('SET', P .. 'rate:' .. name, kept, 'PX', 2 * MINUTE_MS)
end
