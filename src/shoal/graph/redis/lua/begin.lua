-- ARGV: keys, the token of each, '1' for each that is also read (else '0'), and a version for those that are read and have none.
-- Returns the previous version of each, '' for a missing key, false if it is being changed by others.
local deadline = struct.pack('<d', now() + HOLDS)
local before, story = {}, history()
for i = 1, #ARGV[1] / KEY do
  local key = key_at(i)
  local token = string.sub(ARGV[2], i * 8 - 7, i * 8)
  local value = first(i, 'GET', key)
  before[i] = false
  if value ~= nil then
    local held = others(value, token)
    if string.sub(ARGV[3], i, i) == '1' and held == '' and kind(value) ~= 's' then value = 's' .. ARGV[4] end
    local marks = held .. token .. deadline
    local alone = kind(value) ~= 'm' and #marks == 16
    redis.call('SET', key, (alone and 'o' or 'm') .. marks, 'EX', HOLDS)
    if not value then before[i] = '' elseif kind(value) == 's' then before[i] = story .. string.sub(value, 2) end
  end
end
return {refused, before}
