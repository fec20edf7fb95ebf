-- Extends the life of lists that are ready; a list being built keeps its short one.
-- KEYS: the lists. ARGV: sentinel of a ready list, then a ttl_s for each list.
for n, key in ipairs(KEYS) do
    if redis.pcall('ZRANGE', key, 0, 0)[1] == ARGV[1] then
        redis.call('EXPIRE', key, ARGV[n + 1])
    end
end
return 0
