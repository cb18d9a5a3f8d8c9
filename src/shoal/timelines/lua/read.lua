-- ARGV: keys, seconds. Returns filled timelines and extends their lives; deletes those of another history.
local found, now = {}, history()
for i = 1, #ARGV[1] / KEY do
  local key = key_at(i)
  local data = first(i, 'GETEX', key, 'EX', ARGV[2])
  if data and string.sub(data, 1, 16) ~= now then
    redis.call('UNLINK', key)
    data = false
  end
  found[i] = data and string.sub(data, 24, 24) == 'f' and data or false
end
return {refused, found}
