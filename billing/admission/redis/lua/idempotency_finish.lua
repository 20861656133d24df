-- ARGV: key, id. There is no answer to come.
local marker = marker_of(ARGV[1])
if marker.id == ARGV[2] then redis.call('HSET', P .. 'idem:' .. ARGV[1], 's', 'd') end
return 1
