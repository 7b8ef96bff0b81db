-- Of several independent servers that decide by majority: they have given the lock to `token`, and this is the fence, the
-- greatest that one of them proposed. ARGV: token, fence, waited(ms), ttl(ms). {'done'|'not_mine'}.
local token, fence = ARGV[1], ARGV[2]
local place, holder = place_of(token), holder_of(token)
if not place or not holder then return {'not_mine'} end
local last = tonumber(redis.call('GET', FENCE) or '0') or 0
local again = last == tonumber(fence)
redis.call('SET', FENCE, text(math.max(last, tonumber(fence))), 'PX', '86400000')
holder.fence = fence
write_holder(token, holder, left_of(token, place))
if not again then log('acquired', token, holder, {'waited', ARGV[3], 'ttl', ARGV[4]}) end
return {'done'}
