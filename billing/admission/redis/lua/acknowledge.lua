-- The rows are written: forget the settled records. ARGV: how many ids, id, ..., account, balance, seq, ...
for i = 2, ARGV[1] + 1 do
  local record = redis.call('HMGET', P .. 'rec:' .. ARGV[i], 's', 'e', 'a', 'l')
  if record[1] == 's' then forget(ARGV[i], record[1], record[2], record[3], record[4]) end
end
put_accounts(ARGV[1] + 2)
return 1
