-- Asks the holder that was shown to stop. A hold without a process, which no run has joined, is taken away.
-- ARGV: fingerprint, request. {'done'|'changed'|'gone'|'foreign'}.
if held == 'none' then return {'gone'} end
local shown, token = find_shown(ARGV[1])
if not shown then return {'changed'} end
if shown[1] == 'foreign' then return {'foreign'} end
if shown[1] == 'cooldown' then return {'gone'} end
local holder = holder_of(token)
if holder and holder.state == '4' and #joiners_of(token) == 0 then
  evict(token)
  log_removal(shown, token, holder, ARGV[2])
  hand_over()
  forget_in_index()
else
  local left = left_of(token, place_of(token))
  order_stop(token, ARGV[2], left)
  if holder and holder.state == '4' then
    -- The last of those who have joined it ends it.
    holder.state = '2'
    write_holder(token, holder, left)
  end
end
return {'done'}
