local function last(key)
  local about = redis.call('XINFO', 'STREAM', key)
  for at = 1, #about, 2 do
    if about[at] == 'last-generated-id' then return string.match(about[at + 1], '(%d+)-(%d+)') end
  end
end

-- The log and the number of its newest message; nil without a log of this server's history.
local function known(key, there)
  if there == 0 then return nil end
  local group = redis.call('XINFO', 'GROUPS', key)[1]
  if not group or group[2] ~= history() then return nil end
  return last(key)
end

local function begin(key)
  local now = redis.call('TIME')
  local log = now[1] .. string.format('%06d', now[2])
  redis.call('DEL', key)
  redis.call('XGROUP', 'CREATE', key, history(), '0', 'MKSTREAM')
  redis.call('XSETID', key, log .. '-0')
  return log, '0'
end
