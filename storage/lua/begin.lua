-- Marks a missing list as being built. KEYS: the list. ARGV: sentinel, ttl_s. Returns 1 when marked.
if redis.call('EXISTS', KEYS[1]) == 1 then
    return 0
end
redis.call('ZADD', KEYS[1], '-inf', ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1
