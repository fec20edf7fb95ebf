-- Extends the life of lists that are ready; a list being built keeps its short one.
-- KEYS: the lists. ARGV: ttl_s, sentinel of a ready list.
for _, key in ipairs(KEYS) do
    if redis.call('ZRANGE', key, 0, 0)[1] == ARGV[2] then
        redis.call('EXPIRE', key, ARGV[1])
    end
end
return 0
