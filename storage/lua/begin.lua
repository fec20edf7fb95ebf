-- Marks a missing list as being built. KEYS: the list. ARGV: sentinel, ttl_s. Returns 1 when marked.
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'zset' then
    return 0
elseif kind ~= 'none' then
    redis.call('UNLINK', KEYS[1])  -- a key of another type is no list
end
redis.call('ZADD', KEYS[1], '-inf', ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1
