-- Ends a hold, a grant, a place in the queue, or our part in the hold that we joined. ARGV: token, reclaim(0|1; 2 and 3: one
-- of several servers), marker ('': none), its life(ms), own|other (other: of a process that does not know yet),
-- min_hold(ms), what to log (of a waiter what has become of it; of a hold released: it ended by itself, lost: it is not ours
-- any more as far as we know; '': nothing, as for a vote that came to nothing), why, and for the latter our fence, mode and
-- details.
-- {'done'|'gone'|'not_mine'|'asked'}.
-- The first write is always one that a full server accepts: then it accepts the others.
local token, marker, whose = ARGV[1], ARGV[3], ARGV[5]

local ancestor, member = joined_by(token)
if ancestor then
  -- It ends with the command of the run that has joined.
  if whose == 'other' then return {'gone'} end
  redis.call('ZREM', JOINED, member)
  token = ancestor
end
local place, holder = place_of(token), holder_of(token)
-- What settle.lua has told the beginning of has an end.
if ARGV[7] == '' and not (holder and holder.fence ~= '0') then log = function() end end
-- That of a run within counts for nothing.
if holder and not ancestor then holder.min_hold = tonumber(ARGV[6]) end

local function mark()
  if marker ~= '' and place and holder then redis.call('SET', ONCE, marker, 'PX', ARGV[4]) end
end

-- The process that keeps it.
local left = whose == 'other' and place and left_of(token, place) or 0
local function tell_released() put_request(token, '{"released":true,"id":"' .. id_of(token) .. '"}', left) end

-- Its holder has released it before.
if whose == 'other' and holder and holder.state == '2' then return {'gone'} end
-- A run stops its command first.
if whose == 'other' and place and holder and holder.state == '0' then
  tell_released()
  return {'asked'}
end

-- A waiter that gives up, or a hold that ends. `request`: the order to stop that was found.
local function log_it(waiter, request)
  if not holder then
    if waiter then log(ARGV[7], token, waiter, {'waited', text(now - waiter.since), 'reason', ARGV[8]}) end
  elseif ARGV[7] == 'lost' then
    log_end('lost', token, holder, {'reason', ARGV[8]})
  elseif ARGV[7] ~= 'released' and request and not string.find(request, '"released":true', 1, true) then
    log_end('forced', token, holder, {'request', request, 'reason', ARGV[8]})
  else
    log_end('released', token, holder, {'reason', ancestor and 'the last run that had joined it ended' or ARGV[8]})
  end
end

local joiners, last = joiners_of(token)
if ancestor and not (holder and holder.state == '2' and #joiners == 0) then
  mark()
  return {place and 'done' or 'gone'}
end
if place and holder and #joiners > 0 then
  -- The hold stays for those who have joined it; they renew it from now on, and the last one ends it.
  begin_writing()
  holder.state = '2'
  lease(token, place, last - now)
  write_holder(token, holder, last - now)
  mark()
  if whose == 'other' then tell_released() end
  return {'done'}
end
if not place and (holder or ARGV[7] == 'lost') then
  log_loss(token, ARGV[9], {mode = ARGV[10], fence = ARGV[9], details = ARGV[11]}, ARGV[8])
end
local waiter = (not place or not holder) and waiter_of(token)
local was_first = held == 'one' and not place and redis.call('ZRANGE', QUEUE, 0, 0)[1] == token
if not place or not holder then leave_queue(token) end
if held == 'one' and not place then
  if not holder then log_it(waiter) end
  -- The first one alone looks often where the holder is another client, which tells nobody of its end.
  if was_first and not (value and holder_of(value)) then tell_next(0, 0) end
  forget_in_index()
  return {'not_mine'}
end

local request
if place then
  if holder and holder.state == '1' then return {'done'} end
  -- A hold that was asked to stop has no cooldown.
  request = redis.call('HGET', REQUESTS, id_of(token))
  redis.call('HDEL', REQUESTS, id_of(token))
  if not request and holder and holder.since + holder.min_hold > now then
    local rest = holder.since + holder.min_hold - now
    log_it()
    holder.state = '1'
    lease(token, place, rest)
    if place ~= K then settle_mark() end
    write_holder(token, holder, rest)
    note_in_index(rest)
    mark()
    tell_next(0, rest)
    return {'done'}
  end
end

evict(token)
mark()
if place or (waiter and not holder) then log_it(waiter, request) end
-- A renewal of ours that is still on its way must not take the lock back, nor add it here.
local last = tonumber(redis.call('GET', FENCE) or '0')
local fence = ARGV[2] == '1' and holder and last > 0 and last or ARGV[2] > '1' and math.max(last, tonumber(ARGV[9]))
if fence then redis.call('SET', FENCE, text(fence + 1), 'PX', '86400000') end
if whose == 'other' and place then tell_released() end
hand_over()
forget_in_index()
return {place and 'done' or 'gone'}
