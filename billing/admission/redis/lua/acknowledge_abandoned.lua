-- Booked as abandoned: forget them, unless they were settled or live again. ARGV: as of acknowledge.
for i = 2, ARGV[1] + 1 do
  if redis.call('ZSCORE', P .. 'lost', ARGV[i]) then
    local record = redis.call('HMGET', P .. 'rec:' .. ARGV[i], 's', 'e', 'a', 'l')
    forget(ARGV[i], record[1], record[2], record[3], record[4])
  end
end
put_accounts(ARGV[1] + 2)
return 1
