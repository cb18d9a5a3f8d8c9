-- Prints the buckets of the lower-case names on standard input, one line of comma-separated numbers for each name:
-- three letters, two sums, range, server, a, b, c, store. Arguments: members per range, servers, stores of the 64 data sources.
-- Lua has no MD5, so md5sum computes the digests.
local size, servers, stores = tonumber(arg[1]), tonumber(arg[2]), {}
for store in arg[3]:gmatch("%d+") do stores[#stores + 1] = store end
local alphabet = "0123456789abcdefghijklmnopqrstuvwxyz_"
local number = 0
for name in io.lines() do
  local characters, found = name:gsub("[\128-\191]", ""), {}
  for at = 1, 3 do
    local place = at <= #characters and alphabet:find(characters:sub(at, at), 1, true)
    found[at] = place and place - 1 or -1
  end
  local sum = 0
  for at = 1, #name do sum = sum + name:byte(at) end
  local range = math.floor(number / size)
  number = number + 1
  local pipe = io.popen("printf %s '" .. name:gsub("'", "'\\''") .. "' | md5sum")
  local first, second, third = pipe:read("*l"):match("^(%x%x)(%x%x)(%x%x)")
  pipe:close()
  local source = tonumber(first, 16) % 64
  print(string.format("%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%s", found[1], found[2], found[3], sum % 31,
    (sum - (name:byte(1) or 0)) % 33, range, range % servers, source, tonumber(second, 16) % 64,
    tonumber(third, 16) % 128, stores[source + 1]))
end
