-- KEYS: due     Returns: how many wait, how many are claimed, ms the oldest has been waiting.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local waiting = redis.call('ZCOUNT', KEYS[1], '-inf', now)
local oldest = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
local age = 0
if waiting > 0 then age = now - oldest[2] end
return {waiting, redis.call('ZCARD', KEYS[1]) - waiting, age}
