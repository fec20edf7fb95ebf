-- Pushes one post into many lists. KEYS: the lists. ARGV: id, ms, cap, most.
-- A list is a sorted set id -> ms with one sentinel, the lowest member, whose score is the floor:
-- the list is complete strictly above it. No list, no push: a missing list is rebuilt when read.
-- A list that is longer than `most` is trimmed to `cap`: a trim costs two thirds of a push, and so
-- many pushes share one. A key of another type is nobody's list: it goes, and the others get theirs.
-- Returns how many lists took the post.
local id, ms, cap = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local most = tonumber(ARGV[4])
local pushed = 0
for _, key in ipairs(KEYS) do
    local lowest = redis.pcall('ZRANGE', key, 0, 0, 'WITHSCORES')
    if lowest.err then
        redis.call('UNLINK', key)
    elseif lowest[1] and ms > tonumber(lowest[2]) then
        redis.call('ZADD', key, ARGV[2], id)
        pushed = pushed + 1
        local card = redis.call('ZCARD', key)
        if card > most + 1 then
            -- The floor rises to the newest entry beyond the cap; everything at or below it goes,
            -- ties included, so that one millisecond is never split. Where nothing is left the list
            -- is gone, and its TTL with it: no sentinel then, the next read rebuilds it.
            local floor = redis.call('ZREVRANGE', key, cap, cap, 'WITHSCORES')[2]
            if redis.call('ZREMRANGEBYSCORE', key, '-inf', floor) < card then
                redis.call('ZADD', key, floor, lowest[1])
            end
        end
    end
end
return pushed
