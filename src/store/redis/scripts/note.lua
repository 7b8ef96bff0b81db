-- Notes what happened to a claim while the store was away. ARGV: id, event, mode, details, reason. {'done'}.
log(ARGV[2], ARGV[1], {mode = ARGV[3], details = ARGV[4]}, {'reason', ARGV[5]})
return {'done'}
