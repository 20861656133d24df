-- Give claimed records back: they may be claimed from now on. ARGV: id, ...
-- XX: an acknowledged record stays gone. LT: one whose claim ran out keeps its place.
for i = 1, #ARGV do
  redis.call('ZADD', P .. 'due', 'XX', 'LT', NOW, ARGV[i])
  redis.call('ZADD', P .. 'lost', 'XX', 'LT', NOW, ARGV[i])
end
return 1
