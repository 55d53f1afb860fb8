#include "src/stats/totals.h"

#include <array>
#include <bit>
#include <type_traits>

#include "src/io/tls_context.h"

namespace server {
namespace {

Totals CountAll(const ServerView& server) {
  Totals totals;
  for (const WorkerView* worker : server.workers) totals.workers.Add(worker->counters());
  totals.connections = server.connections.total.load(std::memory_order_relaxed);
  totals.rejected_connections = server.connections.rejected.load(std::memory_order_relaxed);
  totals.listen_disabled = server.connections.listen_disabled.load(std::memory_order_relaxed);
  if (server.tls != nullptr) {
    const TlsEvents& events = server.tls->events();
    totals.tls_new_sessions = events.new_sessions.load(std::memory_order_relaxed);
    totals.tls_handshake_errors = events.handshake_errors.load(std::memory_order_relaxed);
  }
  totals.slabs = server.store.Counters();
  totals.chain = server.store.ChainEvents();
  totals.dictionary = server.store.ValueEvents();
  return totals;
}

Totals Difference(const Totals& now, const Totals& then) {
  using Words = std::array<uint64_t, sizeof(Totals) / sizeof(uint64_t)>;
  static_assert(std::has_unique_object_representations_v<Totals> &&
                sizeof(Words) == sizeof(Totals));
  auto words = std::bit_cast<Words>(now);
  const auto before = std::bit_cast<Words>(then);
  for (size_t i = 0; i < words.size(); ++i) words[i] -= before[i];
  return std::bit_cast<Totals>(words);
}

}  // namespace

Totals StatsBaseline::Since(const ServerView& server) const {
  const std::lock_guard lock(mutex_);
  return Difference(CountAll(server), then_);
}

void StatsBaseline::Reset(const ServerView& server) {
  const std::lock_guard lock(mutex_);
  then_ = CountAll(server);
}

}  // namespace server
