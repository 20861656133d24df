-- ARGV: key, id. Whoever comes next may run. What would write it again after this finds its id spent.
local marker = marker_of(ARGV[1])
redis.call('SET', P .. 'gone:' .. ARGV[2], 1, 'PX', 60000)
if marker.id == ARGV[2] and marker.state == 'r' then redis.call('DEL', P .. 'idem:' .. ARGV[1]) end
return 1
