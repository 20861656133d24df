-- ARGV: id, ticket of the admission that nobody waits for any more, or '' = whichever it was.
-- An admission that arrives after its withdrawal (an old connection's last words) finds the ticket spent.
local record = redis.call('HMGET', P .. 'rec:' .. ARGV[1], 's', 'e', 'a', 'l', 't')
if record[1] == 'r' and (ARGV[2] == '' or record[5] == ARGV[2]) then
  forget(ARGV[1], record[1], record[2], record[3], record[4])
elseif ARGV[2] ~= '' then
  redis.call('SET', P .. 'gone:' .. ARGV[2], 1, 'PX', 60000)
end
return 1
