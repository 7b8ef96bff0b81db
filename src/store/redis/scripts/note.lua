-- Notes what happened to a claim while the store was away. ARGV: id, event, mode, details, reason, and how long it
-- waited (ms), of a waiter. {'done'}.
local facts = {'reason', ARGV[5]}
if ARGV[6] then facts = {'waited', ARGV[6], 'reason', ARGV[5]} end
log(ARGV[2], ARGV[1], {mode = ARGV[3], details = ARGV[4]}, facts)
return {'done'}
