-- With log.lua alone: writes what scripts on other servers of a Cluster have noted. KEYS: INDEX, EVENTS, GROUPS, STATS,
-- OTHER_STATS, as in common.lua. ARGV: what each of them answered, packed. {'done'}.
INDEX, EVENTS, GROUPS, STATS, OTHER_STATS = unpack(KEYS)
-- From then on an event tells when it was.
local late = 1000
for _, packed in ipairs(ARGV) do
  for _, note in ipairs(cmsgpack.unpack(packed)) do
    local at, what, key = unpack(note)
    if type(what) == 'table' then
      local facts = what[8]
      if now - at > late then
        facts[#facts + 1] = 'at'
        facts[#facts + 1] = text(at)
      end
      write_event(unpack(what))
    else
      write_index(key, at + what - now)
    end
  end
end
return {'done'}
