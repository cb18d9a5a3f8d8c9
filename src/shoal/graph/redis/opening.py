"""The beginning of every script on Redis: what it does about keys of other servers, and which history its own belong to."""

from __future__ import annotations

OPENING = """
local refused = {}

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

-- Which history this server's data belong to: another one after every restart, and when it took over from a master.
-- Either may have lost writes that had been acknowledged.
local function history()
  return string.match(redis.call('INFO', 'replication'), 'master_replid:(%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x)')
end
"""
