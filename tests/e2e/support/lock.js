// SPDX-License-Identifier: MIT
// usage: node lock.js LIBRARY PORT[,PORT...] KEY TTL ATTEMPTS
// Locks as programs with that library do, says so, and unlocks at the end of standard input.
const [library, ports, key, ttl, attempts] = process.argv.slice(2);
const Redis = require('ioredis');
const clients = ports.split(',').map(port => new Redis(+port, '127.0.0.1'));
const [client] = clients;
const disconnect = () => clients.forEach(each => each.disconnect());
const say = error => console.log(`${error.name} ${error.message}`);

// Both put a word of their own before the key, and renew the lock by themselves.
async function semaphore(kind, ...limit) {
  const name = key.slice(key.indexOf(':') + 1);
  const options = {lockTimeout: +ttl, acquireAttemptsLimit: +attempts, acquireTimeout: 1e6, retryInterval: 50,
                   onLockLost: error => console.log('lost')};
  const lock = new (require('redis-semaphore')[kind])(client, name, ...limit, options);
  await lock.acquire();
  return () => lock.release();
}

const libraries = {
  'redlock': async () => {
    const lock = await new (require('redlock'))(clients, {retryCount: attempts - 1, retryDelay: 50}).lock(key, +ttl);
    return () => lock.unlock();
  },
  '@sesamecare-oss/redlock': async () => {
    const {Redlock} = require('@sesamecare-oss/redlock');
    const lock = await new Redlock(clients, {retryCount: attempts - 1, retryDelay: 50}).acquire([key], +ttl);
    return () => lock.release();
  },
  'redis-semaphore': () => semaphore('Mutex'),
  'redis-semaphore, counting': () => semaphore('Semaphore', 2),
};

libraries[library]().then(unlock => {
  console.log('locked');
  process.stdin.on('end', () => unlock().then(() => console.log('unlocked')).catch(say).finally(disconnect));
  process.stdin.resume();
}).catch(error => { say(error); disconnect(); });
