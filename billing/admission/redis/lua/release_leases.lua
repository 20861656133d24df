-- ARGV: id, holder. What is missing is nothing.
local record = redis.call('HMGET', P .. 'rec:' .. ARGV[1], 's', 'l')
if record[1] == 'r' then keep_leases(ARGV[1], drop_leases(ARGV[1], record[2], ARGV[2])) end
return 1
