-- ARGV: the name of a count; the limit; the seconds of a window; the cost. The Redis key is "<name>:<end of the window>". Returns
-- the count, whether this request was counted, the end of the window (Unix seconds), and the milliseconds until then.
local limit, seconds, cost = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local moment = tonumber(time[1])
local reset = (math.floor(moment / seconds) + 1) * seconds
local left = (reset - moment) * 1000 - math.floor(tonumber(time[2]) / 1000)
local key = ARGV[1] .. ':' .. reset
local used = first(1, 'GET', key)
if used == nil then return {refused, false} end
used = tonumber(used or 0)
if used + cost > limit then return {refused, {used, 0, reset, left}} end
redis.call('INCRBY', key, cost)
redis.call('PEXPIRE', key, left)
return {refused, {used + cost, 1, reset, left}}
