-- ARGV: keys, room in bytes, length at which a string is cut, spread of that length, half of the maximum length, maximum of
-- cuts in a call; then for each entry: the entry, its number of keys, '1' if floors may be above it.
local keys, room, full = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local spread, half, cuts = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local written, seen, cold = {}, 0, 0

local function cut(key)
  local data = redis.call('GET', key)
  local last = #data - room
  write(key, string.sub(data, 1, 24) .. greatest(data, 25, last), data, last + 1, half)
end

-- Timelines that are pushed to together would be cut together, so each key has its own length.
local function due(key)
  local a, b, c = string.byte(key, -9, -7)
  return full + 8 * ((a * 7 + b * 31 + c * 113) % spread)
end

for run = 7, #ARGV, 3 do
  local entry, late, count = ARGV[run], ARGV[run + 2] == '1', 0
  local value = order(entry, 1)
  for i = seen + 1, seen + tonumber(ARGV[run + 1]) do
    local key = string.sub(keys, (i - 1) * KEY + 1, i * KEY)
    local takes = true
    if late then
      local floor = first(i, 'GETRANGE', key, 24, 31)
      takes = floor and #floor == 8 and order(floor, 1) < value
    elseif cold * 4 > i then
      -- Many are cold here, so check first. If most are warm, appending to a missing key and deleting it costs less.
      takes = first(i, 'EXISTS', key) == 1
      if not takes then cold = cold + 1 end
    end
    if takes then
      local size = first(i, 'APPEND', key, entry)
      if size == 8 then
        redis.call('DEL', key)
        cold = cold + 1
      elseif size then
        count = count + 1
        if size > full and cuts > 0 and size > due(key) then
          cut(key)
          cuts = cuts - 1
        end
      end
    end
  end
  seen = seen + tonumber(ARGV[run + 1])
  written[#written + 1] = count
end
return {refused, written}
