"""Scripts that change and read timelines inside Redis.

A timeline is one string: a header of 32 bytes, and then the entries, 8 bytes each (little-endian), in arrival order. The header
has the history of the server on which it was created (16), a creation id (7, of which 2 mark the histories of the stores), `b`
for created or `f` for filled, and the floor (8). A push appends 8 bytes. Only the last `room` bytes of entries count; the entries
before them have been pushed out, their maximum is the floor, and they are cut off from time to time. A removed entry leaves a
zero.

Positive 64-bit integers have the order of the floating-point numbers with identical bits (below 0x7FF0 << 48, which ids reach in
2058), so Lua compares them as such, without conversion or rounding.
"""

from __future__ import annotations

from shoal.graph.redis.client import Script

HEAD_BYTES = 32
MARK_AT, MARK_BYTES = 16, 2
FLOOR_AT = 24

_HERE = r"""
local function order(data, at) return struct.unpack('<d', data, at) end

local MANY = '<' .. string.rep('d', 50)

-- The greatest of the 8-byte numbers in data[from..to].
local function greatest(data, from, to)
  local most, at = -1, from
  while at + 399 <= to do
    local numbers = {struct.unpack(MANY, data, at)}
    -- After the numbers comes where they ended.
    numbers[51] = nil
    most, at = math.max(most, unpack(numbers)), at + 400
  end
  for rest = at, to, 8 do most = math.max(most, (order(data, rest))) end
  return struct.pack('<d', most)
end

-- Write a head and slots[from..]. Redis doubles the allocation of a string that outgrows it. Written in steps up to `half`, it
-- gets room until the next cut and no more; written at once, it would get twice its length. (The first step is three quarters:
-- allocation sizes are a quarter apart, so the second step exceeds the first.)
local function write(key, head, slots, from, half)
  local before = from - #head - 1
  if #slots - before <= math.max(half, 64) then
    redis.call('SET', key, head .. string.sub(slots, from), 'KEEPTTL')
    return
  end
  local step = math.max(#head, math.floor(half * 3 / 4))
  redis.call('SET', key, head .. string.sub(slots, from, before + step), 'KEEPTTL')
  redis.call('APPEND', key, string.sub(slots, before + step + 1, before + half))
  redis.call('APPEND', key, string.sub(slots, before + half + 1))
end
"""

PUSH = Script(
    "timelines.push",
    _HERE
    + r"""
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
""",
)

REMOVE = Script(
    "timelines.remove",
    _HERE
    + r"""
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
""",
    grows=False,
)

SUBTRACT = Script(
    "timelines.subtract",
    _HERE
    + r"""
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
""",
    grows=False,
)

CREATE = Script(
    "timelines.create",
    r"""
-- ARGV: one key, a creation id (7 bytes, of which 2 are the mark), seconds.
-- Returns the creation id of the timeline: this one or an earlier one.
local head, now = first(1, 'GETRANGE', ARGV[1], 0, 31), history()
if not head then return {refused, false} end
local ours = string.sub(head, 1, 16) == now and string.sub(head, 17, 18) == string.sub(ARGV[2], 1, 2)
if #head == 32 and ours then return {refused, string.sub(head, 17, 23)} end
redis.call('SET', ARGV[1], now .. ARGV[2] .. 'b' .. string.rep('\0', 8), 'EX', ARGV[3])
return {refused, ARGV[2]}
""",
)

MERGE = Script(
    "timelines.merge",
    _HERE
    + r"""
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
""",
)

READ = Script(
    "timelines.read",
    r"""
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
""",
    grows=False,
)

LOOK = Script(
    "timelines.look",
    r"""
-- ARGV: one key. Returns the timeline if it is of this history.
local data = first(1, 'GET', ARGV[1])
return {refused, data and string.sub(data, 1, 16) == history() and data or false}
""",
    grows=False,
)

DROP = Script(
    "timelines.drop",
    r"""
for i = 1, #ARGV[1] / KEY do first(i, 'UNLINK', key_at(i)) end
return {refused, true}
""",
    grows=False,
)

WARM = Script(
    "timelines.warm",
    r"""
-- ARGV: keys, the mark. Returns whether each can be read.
local warm, now = {}, history()
for i = 1, #ARGV[1] / KEY do
  local head = first(i, 'GETRANGE', key_at(i), 0, 31)
  local ours = head and string.sub(head, 1, 16) == now and string.sub(head, 17, 18) == ARGV[2]
  warm[i] = ours and string.sub(head, 24, 24) == 'f' and 1 or 0
end
return {refused, warm}
""",
    grows=False,
)

DROP_IDLE = Script(
    "timelines.drop_idle",
    r"""
-- ARGV: keys, seconds. Deletes those that expire sooner.
for i = 1, #ARGV[1] / KEY do
  local key = key_at(i)
  local left = first(i, 'TTL', key)
  if left and left < tonumber(ARGV[2]) then redis.call('UNLINK', key) end
end
return {refused, true}
""",
    grows=False,
)
