-- ARGV: one key. Returns the timeline if it is of this history.
local data = first(1, 'GET', ARGV[1])
return {refused, data and string.sub(data, 1, 16) == history() and data or false}
