-- ARGV: id, holder, packed candidates. Returns the index of the first with room, -1 = none; 0 for a record
-- that is gone. What the holder had is replaced, so that a repeat takes nothing twice.
local record = redis.call('HMGET', P .. 'rec:' .. ARGV[1], 's', 'l')
local candidates = cmsgpack.unpack(ARGV[3])
if record[1] ~= 'r' or #candidates == 0 then return 0 end
local chosen = choose(candidates, ARGV[1] .. '|' .. ARGV[2])
if chosen < 0 then return -1 end
-- Read again: clearing dead processes away may have taken this record's leases.
local held = drop_leases(ARGV[1], redis.call('HGET', P .. 'rec:' .. ARGV[1], 'l'), ARGV[2])
for _, lease in ipairs(candidates[chosen + 1]) do take_lease(ARGV[1], held, ARGV[2], lease.name) end
keep_leases(ARGV[1], held)
return chosen
