-- In front of common.lua and of notes.lua: the index of the locks, the audit log (a stream) and the statistics. They only
-- serve those who look: a lock must not fail because of them.
local INDEX, EVENTS, GROUPS, STATS, OTHER_STATS

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now = math.floor(now_us / 1000)

-- tostring() would write large numbers as 1.7e+15.
local function text(number) return string.format('%.0f', number) end

local month = 2592000000

-- The statistics of our group; of the others where there are too many groups.
local function stats_key()
  local known = redis.pcall('ZSCORE', GROUPS, STATS)
  if type(known) == 'table' then return nil end
  if not known then
    redis.pcall('ZREMRANGEBYSCORE', GROUPS, '-inf', text(now - month))
    local count = redis.pcall('ZCARD', GROUPS)
    if type(count) ~= 'number' or count >= 500 then return OTHER_STATS end
  end
  redis.pcall('ZADD', GROUPS, text(now), STATS)
  redis.pcall('PEXPIRE', GROUPS, text(month))
  return STATS
end

-- Times of `letter` are counted by buckets that grow by the fourth root of 2, with their sum and the longest (see
-- lease/statistics.hpp).
local function count_time(key, letter, ms)
  local bucket = ms < 1 and 0 or math.min(math.floor(math.log(ms) / math.log(2) * 4) + 1, 127)
  redis.pcall('HINCRBY', key, letter .. bucket, 1)
  redis.pcall('HINCRBY', key, letter .. 'sum', text(ms))
  local longest = redis.pcall('HGET', key, letter .. 'max')
  if not longest or (type(longest) == 'string' and tonumber(longest) < ms) then
    redis.pcall('HSET', key, letter .. 'max', text(ms))
  end
end

local letters = {waited = 'w', held = 'h', late = 'l'}

-- `state`: of the holder's entry.
local function count(what, state, facts)
  if not STATS then return end
  local key = stats_key()
  if not key then return end
  redis.pcall('HINCRBY', key, what, 1)
  redis.pcall('HSETNX', key, 'since', text(now))
  for i = 1, #facts, 2 do
    local name, ms = facts[i], tonumber(facts[i + 1])
    if name == 'waited' and what == 'timed_out' and ms == 0 then redis.pcall('HINCRBY', key, 'refused', 1) end
    if name == 'ttl' then redis.pcall('HSET', key, state == '4' and 'uttl' or 'ttl', text(ms)) end
    local letter = letters[name]
    if letter == 'h' and state == '4' then letter = 'u' end
    if letter and (letter ~= 'w' or what == 'acquired') then count_time(key, letter, ms) end
  end
  redis.pcall('PEXPIRE', key, text(month))
end

local ends = {expired = true, forced = true, lost = true}

-- Whether the last thing that the log knows of the hold `id` (one run has the same for all its locks) is how it has ended.
-- nil: the log is not to be read.
local function is_end_told(key, id)
  local entries = EVENTS and redis.pcall('XREVRANGE', EVENTS, '+', '-', 'COUNT', '500')
  if not entries or entries.err then return nil end
  for _, entry in ipairs(entries) do
    local fields = {}
    for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
    if fields.id == id and fields.key == key then return ends[fields.event] or false end
  end
  return false
end

-- `facts`: names and values of what else is to be told. `likely`: of an end that may have been told already; whether it is
-- likely to have been, where the log is not to be read. nil: it has not.
local function write_event(what, key, id, mode, details, fence, state, facts, likely)
  if likely ~= nil then
    local told = is_end_told(key, id)
    if told or (told == nil and likely) then return end
  end
  count(what, state, facts)
  if not EVENTS then return end
  local command = {'XADD', EVENTS, 'MAXLEN', '~', '10000', '*', 'event', what, 'key', key, 'id', id, 'mode', mode,
                   'details', details}
  if fence ~= '' then
    command[#command + 1] = 'fence'
    command[#command + 1] = fence
  end
  for _, fact in ipairs(facts) do command[#command + 1] = fact end
  redis.pcall(unpack(command))
  redis.pcall('PEXPIRE', EVENTS, text(month))
end

local function write_index(key, life)
  if not INDEX then return end
  local last = redis.pcall('ZSCORE', INDEX, key)
  if type(last) == 'table' then return end
  if not last or tonumber(last) < now + life then redis.pcall('ZADD', INDEX, text(now + life), key) end
  redis.pcall('ZREMRANGEBYSCORE', INDEX, '-inf', text(now - 1))
  local left = redis.pcall('PTTL', INDEX)
  if type(left) == 'number' and left < life then redis.pcall('PEXPIRE', INDEX, text(life)) end
end
