-- ARGV: the key, maximum length, messages.
local key = ARGV[1]
local there = first(1, 'EXISTS', key)
if there then
  local log = known(key, there) or begin(key)
  for at = 3, #ARGV do redis.call('XADD', key, 'MAXLEN', '~', ARGV[2], log .. '-*', 'm', ARGV[at]) end
end
return {refused, true}
