-- ARGV: one key, a creation id (7 bytes, of which 2 are the mark), seconds.
-- Returns the creation id of the timeline: this one or an earlier one.
local head, now = first(1, 'GETRANGE', ARGV[1], 0, 31), history()
if not head then return {refused, false} end
local ours = string.sub(head, 1, 16) == now and string.sub(head, 17, 18) == string.sub(ARGV[2], 1, 2)
if #head == 32 and ours then return {refused, string.sub(head, 17, 23)} end
redis.call('SET', ARGV[1], now .. ARGV[2] .. 'b' .. string.rep('\0', 8), 'EX', ARGV[3])
return {refused, ARGV[2]}
