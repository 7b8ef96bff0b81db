-- On its own: renews a hold while its slot of a Cluster is being moved and its keys lie on two servers, so that no script
-- over all of them runs; one over a single key does. KEYS: the lock's. ARGV: token, ttl(ms; 0: confirm only).
-- {'renewed', '', left(ms)}; everything else is for renew.lua to find out.
local ttl = tonumber(ARGV[2])
if redis.call('TYPE', KEYS[1])['ok'] ~= 'string' or redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return redis.error_reply('TRYAGAIN the slot is being moved')
end
if redis.call('PTTL', KEYS[1]) < ttl then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return {'renewed', '', redis.call('PTTL', KEYS[1]), ''}
