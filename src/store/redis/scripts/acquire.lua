-- Try, claim and look in one. ARGV: token, ttl(ms), enqueue|once|claim|vote, our number in the queue (0: none yet),
-- polls(0|1), mode, life of a waiter's entry(ms), details, most waiters ('': any number), state of the holder's entry,
-- then the tokens of our ancestors' holds.
-- {'held', fence}, {'joined', fence, left(ms), its token, its mode}, {'busy', number, ahead, wait(ms), holder, 'full'|''},
-- {'completed', marker, left(ms)}, {'upgrade'}, or {'slots', their number}.
-- vote: of several independent servers that decide by majority this one's part. It is no hold yet: the fence is only
-- proposed (its entry has 0), and neither that nor the beginning is noted before settle.lua.
local token, ttl, how, number = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local mode, life, details = ARGV[6], tonumber(ARGV[7]), ARGV[8]

-- Entries of those whose lease has ended while nobody came.
local function drop_entries()
  local entries, ended = redis.pcall('HGETALL', HOLDERS), now + redis.call('PTTL', HOLDERS) - after
  for i = 1, #entries, 2 do
    local other, holder = entries[i], holder_of(entries[i])
    if other ~= token and not place_of(other) then
      redis.call('HDEL', HOLDERS, other)
      log_end('expired', other, holder, nil, ended)
    end
  end
end

-- Who may not publish wakes nobody when he releases: those who wait have to know, and look again and again.
local function may_publish()
  if not redis.acl_check_cmd then return type(redis.pcall('PUBLISH', channel_of(token), '')) == 'number' end
  local asked, answer = pcall(redis.acl_check_cmd, 'PUBLISH', channel_of(token), '')
  return asked and answer
end

-- `place`: where our token stands already. Who may not use one of the commands that a release needs must learn it here,
-- before anything runs: so none of them is left out.
local function hold(place)
  local waiter = waiter_of(token)
  local waited = waiter and now - waiter.since or 0
  leave_queue(token)
  local holder = place and holder_of(token)
  local is_new = not holder
  if place then lease(token, place, ttl) end
  local fence = holder and holder.fence
  if not holder or fence == '0' then
    local last = tonumber(redis.call('GET', FENCE) or '0') or 0
    fence = text(math.max(last + 1, now_us))
  end
  if not holder then
    if not may_publish() then details = string.gsub(details, '^{', '{"mute":true,') end
    holder = {since = now, fence = how == 'vote' and '0' or fence, mode = mode, min_hold = 0,
              state = ARGV[10], details = details}
    if held == 'several' then
      redis.call('DEL', FENCE)
      redis.call('ZREVRANGE', READERS, 0, 0)
      redis.call('ZRANGEBYSCORE', READERS, 0, 0)
      redis.call('ZSCORE', READERS, token)
      if redis.call('ZCARD', READERS) + redis.call('ZCARD', SLOTS) == 1 then drop_entries() end
    else
      drop_entries()
      redis.call('DEL', HOLDERS)
    end
    if how ~= 'vote' then redis.call('SET', FENCE, fence, 'PX', '86400000') end
    -- Nobody needs the answer.
    redis.call('HGET', HOLDERS, token)
  end
  write_holder(token, holder, ttl)
  note_in_index(ttl)
  if is_new and how ~= 'vote' then log('acquired', token, holder, {'waited', text(waited), 'ttl', ARGV[2]}) end
  return {'held', fence}
end

local function others_hold()
  for _, set in ipairs({READERS, SLOTS}) do
    local entries = redis.call('ZRANGE', set, 0, -1, 'WITHSCORES')
    for i = 1, #entries, 2 do
      if entries[i] ~= token and tonumber(entries[i + 1]) > now then return true end
    end
  end
  return false
end

-- It is our turn. When a part of it is refused (a key of another type, a command that this user may not use) nothing may
-- stay held, nor be held again by who asks once more at once. The undoing makes do with what has been used before where
-- DEL, ZREM or ZREVRANGE is the very command. The first write is one that a full server refuses.
local function hold_or_undo(place)
  local set = place_for(mode)
  local done, answer = pcall(function()
    if not place then lease(token, set, ttl) end
    return hold(place)
  end)
  if done then return answer end
  if value == token then
    redis.pcall('SET', K, token, 'PX', '1')
    redis.pcall('DEL', HOLDERS)
  elseif set ~= K then
    redis.pcall('HDEL', HOLDERS, token)
    if not pcall(take_out, token, set) then
      redis.pcall('ZADD', set, 'XX', '0', token)
      for _, key in ipairs(others_hold() and {} or {set, K}) do redis.pcall('PEXPIRE', key, '1') end
    end
  end
  local words = type(answer) == 'table' and answer.err or tostring(answer)
  return redis.error_reply(string.match(words, '^@?user_script: ?%d+: %-?(.*)$') or words)
end

local function is_connected(other)
  local waiter = waiter_of(other)
  return waiter and waiter.alive and (waiter.polls or listens(other))
end

-- Whether `most` others wait already. Those who are gone don't count.
local function is_full(most)
  if not most or redis.call('ZSCORE', QUEUE, token) then return false end
  if redis.call('ZCARD', QUEUE) < most then return false end
  local waiting = 0
  for _, other in ipairs(redis.call('ZRANGE', QUEUE, 0, -1)) do
    if is_connected(other) then waiting = waiting + 1 end
  end
  return waiting >= most
end

-- We had it, and its lease ended before the answer reached us: with a grant that hold must not come back, nor its fence.
local function forget_our_hold()
  local ended = holder_of(token)
  if ended then
    redis.call('HDEL', HOLDERS, token)
    log_end('expired', token, ended, nil, ended.since + ttl)
  end
end

local function enqueue()
  local score = redis.call('ZSCORE', QUEUE, token)
  if not score then
    local last = redis.call('ZRANGE', QUEUE, -1, -1, 'WITHSCORES')[2]
    score = number > 0 and text(number) or text(math.max((tonumber(last) or 0) + 1, now_us))
    redis.call('ZADD', QUEUE, score, token)
  end
  local before = waiter_of(token)
  redis.call('HSET', WAITERS, token, text(now + life) .. ' ' .. text(before and before.since or now) .. ' ' ..
             text(ttl) .. ' ' .. ARGV[5] .. ' ' .. mode .. ' ' .. details)
  extend(QUEUE, life)
  extend(WAITERS, life)
  note_in_index(life)
  if not before then
    forget_our_hold()
    log('waiting', token, {mode = mode, details = details})
  end
  return text(tonumber(score))
end

-- We leave without the lock.
local function log_no_lock(what)
  local waiter = waiter_of(token)
  log(what, token, {mode = mode, details = details}, {'waited', text(waiter and now - waiter.since or 0)})
  leave_queue(token)
end

-- Waiters before us, without those at the front who are gone.
local function ahead_of_us()
  local at = 0
  while true do
    local other = redis.call('ZRANGE', QUEUE, at, at)[1]
    if not other or other == token then break end
    local waiter = waiter_of(other)
    if not waiter or not waiter.alive then
      drop_waiter(other, waiter)
    elseif waiter.polls or listens(other) then
      break
    else
      at = at + 1
    end
  end
  return (redis.call('ZRANK', QUEUE, token) or at) - at
end

-- Whether the hold is that of a run or shell around us. One that its holder has released stands for those who have joined
-- it, and for what they run.
local function covers(ancestor, holder)
  if not holder or holder.state == '1' then return false end
  if holder.state ~= '2' then return true end
  for _, joiner in ipairs(joiners_of(ancestor)) do
    for i = 11, #ARGV do
      if ARGV[i] == joiner then return true end
    end
  end
  return false
end

-- An ancestor's hold covers ours, unless ours asks for more. A reader goes beside one that is not exclusive, past the
-- queue: whoever waits there may wait for our ancestor. Others are noted, so that the hold stays while they run.
local function join()
  for i = 11, #ARGV do
    local ancestor = ARGV[i]
    local place = place_of(ancestor)
    local holder = place and holder_of(ancestor)
    if covers(ancestor, holder) then
      if place ~= K and mode == 'shared' then return hold_or_undo(nil) end
      if place ~= K and (mode == 'exclusive' or place == READERS) then return {'upgrade'} end
      if place == SLOTS and holder.mode ~= mode then return {'slots', cap_of(holder.mode)} end
      return {'joined', holder.fence, text(note_join(ancestor, place, token, ttl)), ancestor, holder.mode}
    end
  end
  return nil
end

local place = place_of(token)
if ONCE ~= K and not (place and holder_of(token)) then
  local marker = redis.call('GET', ONCE)
  if marker then
    log_no_lock('skipped')
    return {'completed', marker, redis.call('PTTL', ONCE)}
  end
end
if place then return hold_or_undo(place) end
local covered = join()
if covered then return covered end
local theirs = other_slots(mode)
if theirs then return {'slots', theirs} end
if held ~= 'one' and hand_over(token, mode, number > 0 and number or nil) then return hold_or_undo(nil) end

local ahead = 0
local full = how == 'enqueue' and is_full(tonumber(ARGV[9]))
if how == 'enqueue' and not full then
  number = enqueue()
  ahead = ahead_of_us()
else
  if full or how == 'once' then log_no_lock('timed_out') end
  if how == 'once' then
    -- Readers may have waited behind us.
    if held == 'several' then hand_over() end
  end
  number = text(number)
  ahead = redis.call('ZCARD', QUEUE)
end
return {'busy', number, ahead, wait_for(mode), describe(), full and 'full' or ''}
