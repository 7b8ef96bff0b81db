-- Removes exactly the hold that was shown, of whatever type. ARGV: fingerprint, request. {'done'|'changed'|'gone'}.
if held == 'none' then return {'gone'} end
local shown, token = find_shown(ARGV[1])
if not shown then return {'changed'} end
local holder = shown[1] ~= 'foreign' and token and holder_of(token)
local place = token and place_of(token)
local left = place and left_of(token, place) or 0
evict(token)
log_removal(shown, token, holder, ARGV[2])
if shown[1] ~= 'foreign' then order_stop(token, ARGV[2], left) end
hand_over()
forget_in_index()
return {'done'}
