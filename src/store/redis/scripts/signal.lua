-- On its own: wakes one who waits for a lock of python-redis-lock, as a release of that client does. KEYS: its list of
-- signals. A key that is something else stays as it is.
local kind = redis.call('TYPE', KEYS[1])['ok']
if kind ~= 'none' and kind ~= 'list' then return redis.error_reply('WRONGTYPE ' .. kind) end
redis.call('LPUSH', KEYS[1], '1')
redis.call('LTRIM', KEYS[1], '0', '0')
redis.call('PEXPIRE', KEYS[1], '1000')
return redis.status_reply('OK')
