local LIFE, HOLDS = 86400, 30

local function now()
  local time = redis.call('TIME')
  return tonumber(time[1]) + tonumber(time[2]) / 1000000
end

-- A value is 's' and a version, or marks: token (8), deadline (8). Marks follow an 'o' if only one change began since the last
-- version, otherwise an 'm'.
local function kind(value) return value and string.sub(value, 1, 1) end

-- The unexpired marks other than this one.
local function others(value, token)
  local left = {}
  if value and kind(value) ~= 's' then
    local moment = now()
    for at = 2, #value, 16 do
      local held = string.sub(value, at, at + 7)
      if held ~= token and struct.unpack('<d', value, at + 8) > moment then
        left[#left + 1] = string.sub(value, at, at + 15)
      end
    end
  end
  return table.concat(left)
end
