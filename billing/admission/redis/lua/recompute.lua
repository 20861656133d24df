-- The sum of one account's amounts anew. ARGV: account. Returns it as text.
local sum = 0
for _, nano in ipairs(redis.call('HVALS', P .. 'amounts:' .. ARGV[1])) do sum = sum + nano end
local text = string.format('%.0f', sum)
if sum == 0 then
  redis.call('HDEL', P .. 'open', ARGV[1])
else
  redis.call('HSET', P .. 'open', ARGV[1], text)
end
return text
