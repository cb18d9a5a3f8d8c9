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
