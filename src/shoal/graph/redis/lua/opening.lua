local refused = {}

-- The i-th key.
local function key_at(i) return string.sub(ARGV[1], (i - 1) * KEY + 1, i * KEY) end

-- The first command on the i-th key: nil when the key belongs to another server.
local function first(i, ...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    if not string.find(reply.err, 'non local key', 1, true) then error(reply) end
    refused[#refused + 1] = i
    return nil
  end
  return reply
end

-- The history of this server's data: a new one after every restart and failover, since either may lose acknowledged writes.
local function history()
  return string.match(redis.call('INFO', 'replication'), 'master_replid:(%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x)')
end
