-- ARGV: keys, room in bytes; then for each entry: the entry, its number of keys.
local keys, room, seen = ARGV[1], tonumber(ARGV[2]), 0
for run = 3, #ARGV, 2 do
  local entry = ARGV[run]
  for i = seen + 1, seen + tonumber(ARGV[run + 1]) do
    local key = string.sub(keys, (i - 1) * KEY + 1, i * KEY)
    local data = first(i, 'GET', key)
    -- Entries that were pushed out stay, because they determine the floor.
    local at = data and string.find(data, entry, math.max(33, #data - room + 1), true)
    while at do
      if at % 8 == 1 then redis.call('SETRANGE', key, at - 1, string.rep('\0', 8)) end
      at = string.find(data, entry, at + (at % 8 == 1 and 8 or 1), true)
    end
  end
  seen = seen + tonumber(ARGV[run + 1])
end
return {refused, true}
