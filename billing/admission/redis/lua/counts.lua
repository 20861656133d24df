-- Returns packed {how many wait, how many are claimed, ms the oldest has been waiting, how many run}.
local waiting = redis.call('ZCOUNT', P .. 'due', '-inf', NOW)
local age = 0
if waiting > 0 then age = NOW - redis.call('ZRANGE', P .. 'due', 0, 0, 'WITHSCORES')[2] end
local running = redis.call('ZCARD', P .. 'lost')
for _, epoch in ipairs(redis.call('SMEMBERS', P .. 'epochs')) do
  running = running + redis.call('SCARD', P .. 'run:' .. epoch)
end
return cmsgpack.pack({waiting, redis.call('ZCARD', P .. 'due') - waiting, age, running})
