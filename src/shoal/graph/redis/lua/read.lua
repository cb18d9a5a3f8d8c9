-- ARGV: keys, a version for keys without one.
local versions, story = {}, history()
for i = 1, #ARGV[1] / KEY do
  local key = key_at(i)
  local value = first(i, 'GET', key)
  if value == nil or others(value, '') ~= '' then
    versions[i] = false
  else
    if kind(value) ~= 's' then
      value = 's' .. ARGV[2]
      redis.call('SET', key, value, 'EX', LIFE)
    end
    versions[i] = story .. string.sub(value, 2)
  end
end
return {refused, versions}
