-- ARGV: one key, room in bytes, half of the maximum length, floor, entries, 'f' to fill, and the creation id of the timeline
-- to fill (empty: any).
local key, room, half, fill = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[6] == 'f'
local data = first(1, 'GET', key)
if not data or string.sub(data, 1, 16) ~= history() then return {refused, 0} end
if ARGV[7] ~= '' and string.sub(data, 17, 23) ~= ARGV[7] then return {refused, 0} end

local kept = math.max(33, #data - room + 1)
local pushed_out = greatest(data, 25, kept - 1) .. ARGV[4]
local floor = greatest(pushed_out, 1, 16)
local lowest, numbers = order(floor, 1), {}
local function take(from, start)
  for at = start, #from, 8 do
    local number = order(from, at)
    if number > lowest then numbers[#numbers + 1] = number end
  end
end
take(data, kept)
take(ARGV[5], 1)
table.sort(numbers)

local slots, previous = {}, lowest
for _, number in ipairs(numbers) do
  if number > previous then
    slots[#slots + 1] = struct.pack('<d', number)
    previous = number
  end
end
local over = #slots - room / 8
if over > 0 then floor = slots[over] end
local state = fill and 'f' or string.sub(data, 24, 24)
local head = string.sub(data, 1, 23) .. state .. floor
write(key, head, table.concat(slots, '', math.max(over, 0) + 1), 1, half)
return {refused, 1}
