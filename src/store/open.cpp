// SPDX-License-Identifier: MIT
#include "store/open.hpp"

#include "store/local/local_store.hpp"
#include "store/redis/redis_store.hpp"
#include "store/redlock/redlock_store.hpp"

namespace klock {

std::unique_ptr<LockStore> open_store(const StoreUrl& url, const std::string& prefix) {
  if (const auto* local = std::get_if<LocalUrl>(&url)) return open_local_store(local->directory, prefix);
  if (const auto* sentinel = std::get_if<SentinelUrl>(&url)) return open_redis_store(*sentinel, prefix);
  if (const auto* cluster = std::get_if<ClusterUrl>(&url)) return open_redis_store(*cluster, prefix);
  if (const auto* redlock = std::get_if<RedlockUrl>(&url)) return open_redlock_store(*redlock, prefix);
  return open_redis_store(std::get<RedisUrl>(url), prefix);
}

}  // namespace klock
