#include "src/log.h"
#include "src/process/version.h"
#include "src/snapshot/snapshot.h"
#include "src/stats/sections.h"
#include "src/stats/totals.h"
#include "src/warm/warming.h"
#include "storage/engine.h"
#include "storage/store_counters.h"

namespace server {
namespace {

double Ratio(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

void WritePlan(const ServerView& server, StatsSink* out) {
  const kbf::StoreConfig& config = server.store.config();
  out->Add("version", OwnVersion());
  out->Add("engine", server.options.engine);
  for (const auto& [name, value] : server.store.engine().Facts()) out->Add(name, value);
  out->Add("slabs", server.store.num_slabs());
  out->AddReal("exact_share", config.exact_share, 3);
  out->AddReal("front_share", config.front_share, 3);
  out->Add("exact_prefixes", config.exact_prefixes.size());
  out->Add("approximate_prefixes", config.approximate_prefixes.size());
}

void WriteUsage(const ServerView& server, StatsSink* out) {
  const kbf::StoreUsage usage = server.store.Usage();
  const kbf::SlabUsage& slabs = usage.slabs;
  const uint64_t chain_bytes =
      slabs.cells_bytes + slabs.locator_bytes + slabs.dictionary_bytes + usage.shared_bytes;
  out->Add("memory_bytes_max", server.store.config().memory_bytes);
  out->Add("memory_bytes", usage.total_bytes());
  out->Add("curr_front_items", slabs.front_items);
  out->Add("front_bytes", slabs.front_bytes);
  out->Add("curr_chain_keys", slabs.chain_keys);
  out->Add("tombstones", slabs.tombstones);
  out->Add("cells_bytes", slabs.cells_bytes);
  out->Add("locator_bytes", slabs.locator_bytes);
  out->Add("dictionary_bytes", slabs.dictionary_bytes);
  out->Add("value_bytes", usage.shared_bytes);
  out->Add("other_bytes", slabs.other_bytes);
  out->AddReal("bytes_per_chain_key", Ratio(chain_bytes, slabs.chain_keys), 2);
  out->Add("filters", slabs.filters);
  out->AddReal("load", Ratio(slabs.cells_used, slabs.cells), 3);
  out->Add("distinct_values", slabs.values);
  out->Add("codes", slabs.codes);
  out->Add("connection_bytes_max", server.connection_memory.limit());
  out->Add("connection_bytes", server.connection_memory.bytes());
}

template <class Counters>
void WriteNamed(const Counters& counters, StatsSink* out) {
  for (const auto& [field, name] : Counters::Fields()) {
    if (!name.empty()) out->Add(name, counters.*field);
  }
}

void WriteEvents(const Totals& totals, StatsSink* out) {
  WriteNamed(totals.slabs, out);
  WriteNamed(totals.chain, out);
  WriteNamed(totals.dictionary, out);
  out->Add("connections_shed", totals.workers.connections_shed);
  out->Add("io_uring_rounds", totals.workers.io_uring_rounds);
  out->Add("log_lines_dropped", LogLinesDropped());
}

void WriteSnapshot(const ServerView& server, StatsSink* out) {
  static const SnapshotCounters kNone;
  const SnapshotCounters& counters =
      server.snapshot != nullptr ? server.snapshot->counters() : kNone;
  out->Add("snapshot_loaded_items", counters.loaded_items.load());
  out->Add("snapshot_loaded_keys", counters.loaded_keys.load());
  out->Add("snapshot_rejected", counters.rejected.load());
  out->Add("snapshots_written", counters.written.load());
  out->Add("snapshots_failed", counters.failed.load());
}

void WriteWarming(const ServerView& server, StatsSink* out) {
  static const WarmCounters kNone;
  const WarmCounters& counters = server.warming != nullptr ? server.warming->counters() : kNone;
  out->Add("warm_running", counters.running.load());
  out->Add("warm_listed", counters.listed.load());
  out->Add("warm_fetched", counters.fetched.load());
  out->Add("warm_stored", counters.stored.load());
  out->Add("warm_errors", counters.errors.load());
}

}  // namespace

void WriteKbf(const ServerView& server, StatsSink* out) {
  WritePlan(server, out);
  WriteUsage(server, out);
  WriteEvents(server.baseline.Since(server), out);
  WriteSnapshot(server, out);
  WriteWarming(server, out);
}

void WriteErrors(const ServerView& server, StatsSink* out) {
  const kbf::StoreErrors errors = server.store.Errors();
  const kbf::MeasuredRates& measured = errors.measured;
  out->AddRate("promised_false_negative", errors.promised_false_negative);
  out->AddRate("predicted_false_negative", errors.predicted.false_negative);
  out->AddRate("measured_false_negative", Ratio(measured.false_negatives, measured.stored_asked));
  out->AddRate("measured_wrong", Ratio(measured.wrong, measured.stored_asked));
  out->Add("stored_asked", measured.stored_asked);
  out->Add("stored_missed", measured.false_negatives);
  out->Add("stored_wrong", measured.wrong);
  out->AddRate("promised_false_positive", errors.promised_false_positive);
  out->AddRate("predicted_false_positive", errors.predicted.false_positive);
  out->AddRate("measured_false_positive", Ratio(measured.false_positives, measured.absent_probes));
  out->Add("absent_probes", measured.absent_probes);
  out->Add("absent_found", measured.false_positives);
  out->AddRate("predicted_weak", errors.predicted.weak);
  out->AddRate("predicted_false_candidates", errors.false_candidates);
}

}  // namespace server
