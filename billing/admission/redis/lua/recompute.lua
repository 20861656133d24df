-- The sum of one account's amounts anew. ARGV: account. Returns by how much it changes, as text.
local cached = tonumber(redis.call('HGET', P .. 'open', ARGV[1]) or 0)
local sum = 0
for _, nano in ipairs(redis.call('HVALS', P .. 'amounts:' .. ARGV[1])) do sum = sum + nano end
if sum == 0 then
  redis.call('HDEL', P .. 'open', ARGV[1])
else
  redis.call('HSET', P .. 'open', ARGV[1], string.format('%.0f', sum))
end
return string.format('%.0f', sum - cached)
