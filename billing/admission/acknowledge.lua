-- The rows are written: forget the records.
-- KEYS: payloads, due     ARGV: id, id, ...
for i = 1, #ARGV do
  redis.call('HDEL', KEYS[1], ARGV[i])
  redis.call('ZREM', KEYS[2], ARGV[i])
end
return #ARGV
