-- ARGV: one key, room in bytes, entries.
local data, gone = first(1, 'GET', ARGV[1]), {}
if data then
  for at = 1, #ARGV[3], 8 do gone[string.sub(ARGV[3], at, at + 7)] = true end
  local from, slots, found = math.max(33, #data - tonumber(ARGV[2]) + 1), {}, false
  for at = from, #data, 8 do
    local slot = string.sub(data, at, at + 7)
    if gone[slot] then slot, found = string.rep('\0', 8), true end
    slots[#slots + 1] = slot
  end
  if found then redis.call('SETRANGE', ARGV[1], from - 1, table.concat(slots)) end
end
return {refused, true}
