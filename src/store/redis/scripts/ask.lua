-- Asks the holder that was shown to stop. A hold without a process is taken away. ARGV: fingerprint, request.
-- {'done'|'changed'|'gone'|'foreign'}.
if held == 'none' then return {'gone'} end
local shown, token = find_shown(ARGV[1])
if not shown then return {'changed'} end
if shown[1] == 'foreign' then return {'foreign'} end
if shown[1] == 'cooldown' then return {'gone'} end
local holder = holder_of(token)
if holder and holder.state == '4' then
  evict(token)
  log_removal(shown, token, holder, ARGV[2])
  hand_over()
  forget_in_index()
else
  order_stop(token, ARGV[2])
end
return {'done'}
