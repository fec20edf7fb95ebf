-- Merges entries into a list. KEYS: the list.
-- ARGV: sentinel ('' = whichever it has), sentinel afterwards ('' = the same), ttl_s (0 = keep),
--       cap, floor of the entries, then ms, id, ms, id, ...
-- Returns 1 when merged, 0 when the list is missing (a key of another type is none) or is not the
-- one that was begun.
local key, expected, after, ttl_s = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
local cap = tonumber(ARGV[4])
local lowest = redis.pcall('ZRANGE', key, 0, 0, 'WITHSCORES')
if lowest.err or not lowest[1] or (expected ~= '' and lowest[1] ~= expected) then
    return 0
end
if after == '' then
    after = lowest[1]
end
-- The entries are complete above their own floor, the list above its own: together above the higher.
local floor = lowest[2]
if tonumber(ARGV[5]) > tonumber(floor) then
    floor = ARGV[5]
end
for at = 6, #ARGV, 5000 do
    redis.call('ZADD', key, unpack(ARGV, at, math.min(at + 4999, #ARGV)))
end
local card = redis.call('ZCARD', key)
if card > cap + 1 then
    local beyond = redis.call('ZREVRANGE', key, cap, cap, 'WITHSCORES')[2]
    if tonumber(beyond) > tonumber(floor) then
        floor = beyond
    end
end
local removed = redis.call('ZREMRANGEBYSCORE', key, '-inf', floor)
if removed == card and ttl_s == 0 then
    return 1  -- nothing is left, its TTL neither: the next read rebuilds it
end
redis.call('ZADD', key, floor, after)
if ttl_s > 0 then
    redis.call('EXPIRE', key, ttl_s)
end
return 1
