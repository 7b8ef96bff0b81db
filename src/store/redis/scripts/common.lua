-- In front of every script that deals with a lock, behind log.lua. A script touches the keys in KEYS alone, always in this
-- order. ONCE is K again where there is no marker to look after; a user who may not use the last ones leaves them out.
-- INDEX is K where they lie in another slot of a Cluster: what is to be noted there is part of the answer then, {notes
-- (packed; '': none), answer}, and notes.lua writes it.
local K, HOLDERS, WAITERS, QUEUE, FENCE, REQUESTS, READERS, SLOTS, JOINED, ONCE = unpack(KEYS, 1, 10)
INDEX, EVENTS, GROUPS, STATS, OTHER_STATS = unpack(KEYS, 11)
local notes = INDEX == K and {} or nil

local function id_of(token) return string.sub(token, 1, 12) end

-- What stands at K while several hold it: READERS and SLOTS tell who they are, with the time (ms) when each lease ends.
local MARK = 'klock:shared'

-- What stands at K (`value` only of a string), and who has the lock: 'none', 'one' (klock's or not), 'several'. Whether
-- runs within runs have joined a hold: JOINED has 'HOLDER:OWN' (tokens) of each, with the time when it is forgotten.
local kind, value, held, joined

-- Where a hold or a grant of `token` stands: K, READERS or SLOTS. nil: there is none.
local function place_of(token)
  if held == 'one' then return value == token and K or nil end
  if held == 'none' then return nil end
  return redis.call('ZSCORE', READERS, token) and READERS or redis.call('ZSCORE', SLOTS, token) and SLOTS or nil
end

-- 'slots3' has a cap of 3.
local function cap_of(mode) return tonumber(string.match(mode, '^slots(%d+)$')) end

local function extend(key, life)
  if redis.call('PTTL', key) < life then redis.call('PEXPIRE', key, text(life)) end
end

-- K outlasts the longest of the leases under it.
local function keep_mark(life)
  if kind == 'none' then
    redis.call('SET', K, MARK, 'PX', text(life))
    kind, value, held = 'string', MARK, 'several'
  else
    extend(K, life)
  end
end

-- Sets the end of what stands at `place`, or puts it there.
local function lease(token, place, life)
  if place == K then
    if value == token then redis.call('PEXPIRE', K, text(life))
    else redis.call('SET', K, token, 'PX', text(life)) end
    kind, value, held = 'string', token, 'one'
  else
    redis.call('ZADD', place, text(now + life), token)
    extend(place, life)
    keep_mark(life)
  end
end

local function place_for(mode) return mode == 'exclusive' and K or mode == 'shared' and READERS or SLOTS end

-- K ends with the last of several.
local function settle_mark()
  local last = 0
  for _, set in ipairs({READERS, SLOTS}) do
    last = math.max(last, tonumber(redis.call('ZREVRANGE', set, 0, 0, 'WITHSCORES')[2]) or 0)
  end
  if last > now then
    redis.call('PEXPIRE', K, text(last - now))
  else
    redis.call('DEL', K)
    kind, value, held = 'none', nil, 'none'
  end
end

local function take_out(token, place)
  redis.call('ZREM', place, token)
  settle_mark()
end

local function split_join(member) return string.match(member, '^(%w+):(%w+)$') end

-- What is left of the lease at `place` (ms).
local function left_of(token, place)
  if place == K then return redis.call('PTTL', K) end
  return tonumber(redis.call('ZSCORE', place, token)) - now
end

-- Notes that `own` has joined the hold of `token`: until its own lease would end, and as long as it may rely on the other.
-- Returns what is left of that one.
local function note_join(token, place, own, ttl)
  local left = left_of(token, place)
  local life = math.max(ttl, left)
  redis.call('ZADD', JOINED, text(now + life), token .. ':' .. own)
  extend(JOINED, life)
  joined = true
  return left
end

-- The token of the hold that `own` has joined, and the member of JOINED that says so.
local function joined_by(own)
  for _, member in ipairs(joined and redis.call('ZRANGE', JOINED, 0, -1) or {}) do
    local holder, joiner = split_join(member)
    if joiner == own then return holder, member end
  end
  return nil
end

-- The tokens of the runs that have joined the hold of `token`, and when the last of them would end.
local function joiners_of(token)
  local found, last = {}, 0
  if not joined then return found, last end
  local entries = redis.call('ZRANGE', JOINED, 0, -1, 'WITHSCORES')
  for i = 1, #entries, 2 do
    local holder, own = split_join(entries[i])
    if holder == token then
      found[#found + 1] = own
      last = math.max(last, tonumber(entries[i + 1]))
    end
  end
  return found, last
end

-- A full server refuses ZADD and HSET as a first write, and takes them after this one.
local function begin_writing() redis.call('HDEL', REQUESTS, '') end

-- How long (ms) the entry of a hold that has just expired can still be told of.
local after = 3600000

-- An entry of HOLDERS: since(ms) fence mode min_hold(ms; 0 until the release says it) state details. State: 0 a run, 1
-- cooldown, 2 a run that has ended and stays for those who have joined, 3 a script's, 4 without any process. nil: none, or
-- damaged.
local function holder_of(token)
  local entry = redis.call('HGET', HOLDERS, token)
  if not entry then return nil end
  local since, fence, mode, min_hold, state, details =
      string.match(entry, '^(%d+) (%d+) (%w+) (%d+) ([0-4]) (.*)$')
  if not since then return nil end
  return {entry = entry, since = tonumber(since), fence = fence, mode = mode, min_hold = tonumber(min_hold),
          state = state, details = details}
end

local function write_holder(token, holder, life)
  redis.call('HSET', HOLDERS, token, text(holder.since) .. ' ' .. holder.fence .. ' ' .. holder.mode .. ' ' ..
             text(holder.min_hold) .. ' ' .. holder.state .. ' ' .. holder.details)
  if held == 'several' then extend(HOLDERS, life + after) else redis.call('PEXPIRE', HOLDERS, text(life + after)) end
end

-- An entry of WAITERS: alive_until(ms) since(ms) ttl(ms) polls(0|1) mode details. nil: none, or damaged.
local function waiter_of(token)
  local entry = redis.call('HGET', WAITERS, token)
  if not entry then return nil end
  local alive_until, since, ttl, polls, mode, details = string.match(entry, '^(%d+) (%d+) (%d+) ([01]) (%w+) (.*)$')
  if not since then return nil end
  return {entry = entry, alive = tonumber(alive_until) > now, since = tonumber(since), ttl = tonumber(ttl), polls = polls == '1',
          mode = mode, details = details}
end

-- `entry`: that of HOLDERS or WAITERS; for the rest see write_event().
local function log(what, token, entry, facts, likely)
  local event = {what, K, id_of(token), entry.mode, entry.details, entry.fence or '', entry.state or '', facts or {}, likely}
  if notes then notes[#notes + 1] = {now, event} else write_event(unpack(event)) end
end

-- The end of a hold is told by whoever takes its entry out of HOLDERS, in that very step: so once. The start of a
-- cooldown was its end. `ended`: when it was (ms), if not now.
local function log_end(what, token, holder, facts, ended)
  if not holder or holder.state == '1' then return end
  facts = facts or {}
  facts[#facts + 1] = 'held'
  facts[#facts + 1] = text(math.max(math.min(ended or now, now) - holder.since, 0))
  log(what, token, holder, facts)
end

-- A loss, told by whoever finds it out for his own command. It may be told already: by an answer of ours that came too late
-- to be heard; and where somebody came since, he has told that it expired, unless this server took over from one that kept
-- the hold to itself.
local function log_loss(token, fence, entry, reason)
  local holder = holder_of(token)
  if holder then
    redis.call('HDEL', HOLDERS, token)
    return log_end('lost', token, holder, {'reason', reason})
  end
  local last = redis.call('GET', FENCE)
  log('lost', token, entry, {'reason', reason}, last and last ~= fence)
end

local function leave_queue(token)
  redis.call('ZREM', QUEUE, token)
  redis.call('HDEL', WAITERS, token)
end

-- Whose process is gone.
local function drop_waiter(token, waiter)
  leave_queue(token)
  if waiter then
    log('gave_up', token, waiter, {'waited', text(now - waiter.since), 'reason', 'its process is gone'})
  end
end

-- A waiter's or holder's own channel, next to its queue in the same Cluster slot.
local function channel_of(token) return string.sub(QUEUE, 1, -6) .. 'wake:' .. id_of(token) end

-- Whether somebody received it. A user who may not publish reaches nobody.
local function tell(token, message)
  local receivers = redis.pcall('PUBLISH', channel_of(token), message)
  return type(receivers) == 'number' and receivers > 0
end

-- Whether the waiter still has its connection; where that may not be asked, it counts as alive.
local function listens(token)
  local answer = redis.pcall('PUBSUB', 'NUMSUB', channel_of(token))
  return type(answer[2]) ~= 'number' or answer[2] > 0
end

local function note_in_index(life)
  if notes then notes[#notes + 1] = {now, life, K} else write_index(K, life) end
end

-- On a Cluster it could come after the note of whoever has taken the lock since: there an entry ends by its score.
local function forget_in_index()
  if INDEX and not notes and redis.pcall('EXISTS', K, QUEUE) == 0 then redis.pcall('ZREM', INDEX, K) end
end

-- Tells the first waiter from position `at` who still listens when to look.
local function tell_next(at, wait)
  while true do
    local token = redis.call('ZRANGE', QUEUE, at, at)[1]
    if not token or tell(token, 'next ' .. text(wait)) then return end
    at = at + 1
  end
end

-- The number of slots by which others hold slots, if it is not the one of `mode`.
local function other_slots(mode)
  local cap = held == 'several' and cap_of(mode)
  local other = cap and redis.call('ZRANGE', SLOTS, 0, 0)[1]
  local entry = other and (holder_of(other) or waiter_of(other))
  local theirs = entry and cap_of(entry.mode)
  return theirs ~= cap and theirs or nil
end

-- Whether a claim of this mode goes together with those who have the lock.
local function admits(mode)
  if held ~= 'several' then return held == 'none' end
  if mode == 'exclusive' then return false end
  local cap = cap_of(mode)
  return not cap or (redis.call('ZCARD', SLOTS) < cap and not other_slots(mode))
end

-- When it may be free for a claim of this mode without anyone telling (ms).
local function wait_for(mode)
  if held == 'several' and cap_of(mode) then
    local first = redis.call('ZRANGE', SLOTS, 0, 0, 'WITHSCORES')[2]
    if first then return math.max(tonumber(first) - now, 0) end
  end
  return redis.call('PTTL', K)
end

-- Gives the lock to those waiters whose turn it is, who go together and who still have a connection, for the short time
-- in which a running waiter claims it: so nobody barges in, and a frozen one delays the others little. One without a
-- connection keeps its place, as it may be reconnecting. `me`, whose place is before the one with a number above
-- `my_number`, takes it himself: true if he may.
local function hand_over(me, my_mode, my_number)
  local at, granted = 0, nil
  while true do
    local entry = redis.call('ZRANGE', QUEUE, at, at, 'WITHSCORES')
    local token = entry[1]
    if not token or token == me or (my_number and tonumber(entry[2]) > my_number) then
      return me and admits(my_mode)
    end
    local waiter = waiter_of(token)
    local life = waiter and (waiter.polls and 1000 or math.min(1000, waiter.ttl))
    if not waiter or not waiter.alive then
      drop_waiter(token, waiter)
    elseif not admits(waiter.mode) then
      -- What it knew of when to look holds no more: some were granted and may be frozen, or the longest lease is over. Or
      -- it has to learn at once that others count the slots differently.
      local news = other_slots(waiter.mode) and 0 or granted or (not me and wait_for(waiter.mode))
      if waiter.polls or (news and tell(token, 'next ' .. text(news)) or listens(token)) then return false end
      at = at + 1
    elseif waiter.polls or tell(token, 'grant') then
      lease(token, place_for(waiter.mode), life)
      redis.call('ZREM', QUEUE, token)
      if waiter.mode == 'exclusive' then
        tell_next(at, life)
        return false
      end
      granted = math.max(granted or 0, life)
    else
      at = at + 1
    end
  end
end

local sizes = {hash = 'HLEN', list = 'LLEN', set = 'SCARD', zset = 'ZCARD', stream = 'XLEN'}

-- {source, type, id or value, digest, size, now(ms), entry}: the entry is that of HOLDERS ('held', 'cooldown') or of
-- WAITERS ('granted'). Never a whole token of klock's.
local function describe_string(text_at_k)
  local digest = redis.sha1hex('string' .. #text_at_k .. ':' .. string.sub(text_at_k, 1, 4096))
  local id, size = id_of(text_at_k), #text_at_k
  local holder = holder_of(text_at_k)
  if holder then return {holder.state == '1' and 'cooldown' or 'held', 'string', id, digest, size, text(now), holder.entry} end
  local waiter = waiter_of(text_at_k)
  if waiter then return {'granted', 'string', id, digest, size, text(now), waiter.entry} end
  return {'foreign', 'string', string.sub(text_at_k, 1, 100), digest, size}
end

local function members()
  local tokens = redis.call('ZRANGE', READERS, 0, -1)
  for _, token in ipairs(redis.call('ZRANGE', SLOTS, 0, -1)) do tokens[#tokens + 1] = token end
  return tokens
end

-- Whoever has the lock; of several one, if possible one that runs.
local function describe()
  if held == 'several' then
    local some
    for _, token in ipairs(members()) do
      some = describe_string(token)
      if some[1] ~= 'cooldown' then break end
    end
    return some or describe_string(MARK)
  end
  if kind == 'string' then return describe_string(value) end
  local size = sizes[kind] and redis.pcall(sizes[kind], K)
  if type(size) ~= 'number' then size = -1 end
  local dump = redis.pcall('DUMP', K)
  if type(dump) ~= 'string' then dump = tostring(size) end
  return {'foreign', kind, '', redis.sha1hex(kind .. dump), size}
end

-- The description that has this digest, and its token; nil: whoever was shown has gone.
local function find_shown(digest)
  if held ~= 'several' then
    local shown = describe()
    if shown[4] == digest then return shown, value end
    return nil
  end
  local tokens = members()
  for _, token in ipairs(tokens) do
    local shown = describe_string(token)
    if shown[4] == digest then return shown, token end
  end
  -- A mark without holders, whose entries somebody has deleted.
  local shown = #tokens == 0 and describe()
  return shown and shown[4] == digest and shown or nil
end

-- Takes a hold away, of whatever type. The first write is one that a full server accepts.
local function evict(token)
  local place = token and held == 'several' and place_of(token)
  if place then
    take_out(token, place)
  elseif held ~= 'several' or #members() == 0 then
    redis.call('DEL', K)
    kind, value, held = 'none', nil, 'none'
  end
  if token then
    redis.call('HDEL', HOLDERS, token)
    redis.call('HDEL', WAITERS, token)
  end
end

-- Of what was shown. The end of a hold that is in its cooldown was told before: then only that, who and why.
local function log_removal(shown, token, holder, request)
  if holder and holder.state == '1' then return log('forced', token, holder, {'request', request}) end
  if holder then return log_end('forced', token, holder, {'request', request}) end
  log('forced', shown[4], {mode = 'exclusive', details = shown[1] == 'granted' and shown[7] or ''}, {'request', request})
end

-- `left`: of the lease. Whoever hears nothing finds it at the next renewal.
local function put_request(token, request, left)
  -- A full server refuses HSET as a first write, and here it must not.
  redis.call('HDEL', REQUESTS, id_of(token))
  redis.call('HSET', REQUESTS, id_of(token), request)
  extend(REQUESTS, math.max(60000, left))
  tell(token, 'stop')
end

-- A forced release ends the runs that have joined as well.
local function order_stop(token, request, left)
  put_request(token, request, left)
  for _, joiner in ipairs(joiners_of(token)) do tell(joiner, 'stop') end
end

local function drop_expired(set)
  local expired = redis.call('ZRANGEBYSCORE', set, '-inf', text(now))
  for _, token in ipairs(expired) do
    local holder, ended = holder_of(token), tonumber(redis.call('ZSCORE', set, token))
    redis.call('ZREM', set, token)
    redis.call('HDEL', HOLDERS, token)
    log_end('expired', token, holder, nil, ended)
  end
end

local function look()
  kind, value = redis.call('TYPE', K)['ok'], nil
  if kind == 'string' then value = redis.call('GET', K) end
  held = kind == 'none' and 'none' or 'one'
  if redis.call('EXISTS', READERS, SLOTS, JOINED) > 0 then
    drop_expired(READERS)
    drop_expired(SLOTS)
    drop_expired(JOINED)
    joined = redis.call('EXISTS', JOINED) > 0
    -- Somebody may have deleted the mark; the holders are none the less there.
    if kind == 'none' and redis.call('EXISTS', READERS, SLOTS) > 0 then held = 'several' end
  end
  if value == MARK then held = 'several' end
end

-- What is returned, see above.
local function with_notes(answer)
  if not notes then return answer end
  return {#notes > 0 and cmsgpack.pack(notes) or '', answer}
end

look()
