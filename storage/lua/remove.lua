-- Removes entries from a list and leaves its sentinel. KEYS: the list. ARGV: ids. Returns how many went.
local removed = 0
if redis.call('TYPE', KEYS[1]).ok ~= 'zset' then
    return 0
end
for at = 1, #ARGV, 5000 do
    removed = removed + redis.call('ZREM', KEYS[1], unpack(ARGV, at, math.min(at + 4999, #ARGV)))
end
return removed
