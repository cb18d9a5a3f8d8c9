-- ARGV: the Redis key of a count, "<name>:<end of the window>".
local used = first(1, 'GET', ARGV[1])
if used == nil then return {refused, false} end
if tonumber(used or 0) > 0 then redis.call('DECR', ARGV[1]) end
return {refused, true}
