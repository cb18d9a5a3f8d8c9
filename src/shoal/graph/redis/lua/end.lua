-- ARGV: keys, the token of each, and a version for each that no other process was changing. Returns the versions that were set.
local versions, story = {}, history()
for i = 1, #ARGV[1] / KEY do
  local key = key_at(i)
  local token = string.sub(ARGV[2], i * 8 - 7, i * 8)
  local value = first(i, 'GET', key)
  versions[i] = false
  if value then
    local left = others(value, token)
    if left ~= '' then
      redis.call('SET', key, 'm' .. left, 'KEEPTTL')
    elseif kind(value) == 'o' and string.sub(value, 2, 9) == token then
      local version = string.sub(ARGV[3], i * 16 - 15, i * 16)
      redis.call('SET', key, 's' .. version, 'EX', LIFE)
      versions[i] = story .. version
    else
      redis.call('DEL', key)
    end
  end
end
return {refused, versions}
