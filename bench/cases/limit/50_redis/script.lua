-- A token bucket (GCRA): a million units a second, a million at once
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local tat = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now) + 1
if tat - now > 1000000 then
    return {0, 0, tat - now - 1000000}
end
redis.call('SET', KEYS[1], string.format('%.0f', tat), 'PX', math.ceil((tat - now) / 1000))
return {1, 1000000 - (tat - now), 0}
