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

-- Whether the log knows already how the hold `id` has ended.
local function is_end_told(id)
  local entries = redis.pcall('XREVRANGE', EVENTS, '+', '-', 'COUNT', '500')
  if entries.err then return true end
  for _, entry in ipairs(entries) do
    local fields = {}
    for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
    if fields.id == id and (fields.event == 'expired' or fields.event == 'forced' or fields.event == 'lost') then
      return true
    end
  end
  return false
end

-- `facts`: names and values of what else is to be told; `unless_told`: of an end that somebody else may have told.
local function write_event(what, key, id, mode, details, fence, state, facts, unless_told)
  if unless_told and (not EVENTS or is_end_told(id)) then return end
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
