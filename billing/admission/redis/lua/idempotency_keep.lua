-- ARGV: key, id, ms to keep, bytes that all answers together may have, answer. The oldest make room.
local key, id, kept_ms, bytes_max, answer = unpack(ARGV)
local marker = marker_of(key)
if marker.id ~= id then return 0 end
write_marker(key, marker.fingerprint, id, marker.epoch, 'd', kept_ms)
redis.call('SET', P .. 'answer:' .. id, answer, 'PX', kept_ms)
if redis.call('ZADD', P .. 'answers', NOW, string.format('%d|%s', #answer, id)) == 1 then
  redis.call('INCRBY', P .. 'answers_size', #answer)
end
for _, old in ipairs(redis.call('ZRANGEBYSCORE', P .. 'answers', '-inf', NOW - kept_ms, 'LIMIT', 0, 100)) do
  drop_answer(old)
end
while tonumber(redis.call('GET', P .. 'answers_size') or 0) > tonumber(bytes_max) do
  local oldest = redis.call('ZRANGE', P .. 'answers', 0, 0)[1]
  if not oldest then
    redis.call('DEL', P .. 'answers_size')
    break
  end
  drop_answer(oldest)
end
return 1
