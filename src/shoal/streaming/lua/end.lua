-- ARGV: the key. Returns the log, and the numbers of its newest and its oldest stored message.
local key = ARGV[1]
local there = first(1, 'EXISTS', key)
if not there then return {refused, false} end
local log, newest = known(key, there)
if not log then log, newest = begin(key) end
local oldest = redis.call('XRANGE', key, '-', '+', 'COUNT', 1)[1]
return {refused, {log, newest, oldest and string.match(oldest[1], '%-(%d+)') or newest + 1}}
