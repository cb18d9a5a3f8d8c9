-- ARGV: the key, a log, a number, limit. Returns the messages after that number; nil if some are missing.
-- It is not flagged as read-only, so a replica, which may lack the newest messages, refuses it.
local key, after = ARGV[1], tonumber(ARGV[3])
local there = first(1, 'EXISTS', key)
if not there then return {refused, false} end
local log, newest = known(key, there)
if log ~= ARGV[2] or tonumber(newest) < after then return {refused, false} end
local entries = redis.call('XRANGE', key, '(' .. log .. '-' .. ARGV[3], '+', 'COUNT', ARGV[4])
if (entries[1] and entries[1][1] or log .. '-' .. newest + 1) ~= log .. '-' .. after + 1 then return {refused, false} end
local messages = {}
for at, entry in ipairs(entries) do messages[at] = entry[2][2] end
return {refused, messages}
