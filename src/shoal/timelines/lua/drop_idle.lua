-- ARGV: keys, seconds. Deletes those that expire sooner.
for i = 1, #ARGV[1] / KEY do
  local key = key_at(i)
  local left = first(i, 'TTL', key)
  if left and left < tonumber(ARGV[2]) then redis.call('UNLINK', key) end
end
return {refused, true}
