-- ARGV: token, ttl(ms; 0: confirm only), fence, reclaim(0|1; 2: one of several servers; 3: likewise, and add it), mode,
-- details, the token of a run that has joined this hold ('': it is our own), state of the holder's entry, own|other (other: of
-- a process that does not know yet).
-- {'renewed'|'reclaimed'|'gone', request, left(ms), 'joined'|''} or {'not_mine', request, pttl, holder}; request is '' if
-- there is none; joined: what was confirmed by the token of a run that has joined it.
local token, ttl, fence, mode, joiner = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[5], ARGV[7]
-- What a run that has joined it is asked with its own token alone, by its script.
local ancestor = joiner == '' and joined_by(token)
if ancestor then token, joiner = ancestor, token end
local request = redis.call('HGET', REQUESTS, id_of(token)) or ''
-- A release concerns whoever took the hold; those who have joined it go on.
if joiner ~= '' and string.find(request, '"released":true', 1, true) then request = '' end

-- A hold that is taken back by one who has joined it is left for him: its holder may have ended meanwhile.
local function hold(life)
  write_holder(token, {since = now, fence = fence, mode = mode, min_hold = 0, state = joiner ~= '' and '2' or ARGV[8],
                       details = ARGV[6]}, life)
end

local mine = {mode = mode, fence = fence, details = ARGV[6]}

-- What was removed was told by whoever removed it.
local function tell_loss(reason)
  if ttl == 0 or joiner ~= '' or ARGV[9] == 'other' or request ~= '' or ARGV[4] > '1' then return end
  log_loss(token, fence, mine, reason)
end

local place = place_of(token)
if place then
  local holder = holder_of(token)
  local state = holder and holder.state
  if state == '1' then return {'gone', request, '0'} end
  if state == '2' and joiner == '' then
    -- Its holder has released it, or comes to take it back after one who has joined it.
    if ARGV[4] ~= '1' or ttl == 0 or ARGV[9] == 'other' or holder.fence ~= fence then return {'gone', request, '0'} end
    holder.state = ARGV[8]
    write_holder(token, holder, ttl)
  end
  if ttl == 0 then return {'renewed', request, text(left_of(token, place)), ancestor and 'joined' or ''} end
  if place ~= K or joiner ~= '' then begin_writing() end
  if joiner ~= '' then
    local left = note_join(token, place, joiner, ttl)
    -- Its holder renews it; once that one has ended, those who have joined.
    if holder and state ~= '2' then return {'renewed', request, text(left)} end
  end
  -- A process that relies on the lease knows its end from its own last renewal: the lease must not end before that. And
  -- what somebody with the token was promised, the process must not take back.
  local left = left_of(token, place)
  local gap = ttl - left  -- since the last confirmation
  local relied_on = not holder or holder.state ~= '4' or #joiners_of(token) > 0
  local life = relied_on and math.max(ttl, left) or ttl
  lease(token, place, life)
  if life < left then
    if place ~= K then settle_mark() end
    tell_next(0, life)  -- who sleeps until the end that was
  end
  if not holder then hold(life)
  elseif place == K then redis.call('PEXPIRE', HOLDERS, text(life + after))
  else extend(HOLDERS, life + after) end
  note_in_index(life)
  if joiner == '' and ARGV[9] == 'own' and gap > ttl / 2 then
    log('renewed_late', token, mine, {'late', text(gap)})
  end
  if ARGV[9] == 'other' then tell(token, 'renewed') end
  return {'renewed', request, text(life)}
end
redis.call('ZREM', READERS, token)
redis.call('ZREM', SLOTS, token)
if value == MARK then settle_mark() end
if held == 'one' or (held == 'several' and mode == 'exclusive') then
  tell_loss('somebody else holds it')
  return {'not_mine', request, redis.call('PTTL', K), describe()}
end

-- Whether nobody was in between: the fence is unchanged. Of several the first one to come back leaves his own, and has an
-- entry that is younger than his fence.
local last = redis.call('GET', FENCE)
local function nobody_between()
  if held == 'none' then return not last or last == fence end
  if not admits(mode) then return false end
  for _, other in ipairs(members()) do
    local holder = holder_of(other)
    if holder and holder.fence == last and tonumber(last) < holder.since * 1000 then return true end
  end
  return false
end

-- One of several servers has not had it, or has lost it, and what they decide is decided elsewhere: it is added here as
-- long as this server knows of no hold that came later, nor of the release of this one.
local function nobody_later() return held == 'none' and (tonumber(last) or 0) <= tonumber(fence) end

local takes_back = (ARGV[4] == '1' and nobody_between()) or (ARGV[4] == '3' and nobody_later())
-- What was removed on purpose stays removed.
if takes_back and ttl > 0 and request == '' then
  lease(token, place_for(mode), ttl)
  redis.call('SET', FENCE, text(math.max(tonumber(last) or 0, tonumber(fence))), 'PX', '86400000')
  hold(ttl)
  if joiner ~= '' then note_join(token, place_for(mode), joiner, ttl) end
  note_in_index(ttl)
  if ARGV[4] == '1' then log('reclaimed', token, mine) end
  return {'reclaimed', request, text(ttl)}
end
tell_loss('nothing is held with its token')
return {'gone', request, '0'}
