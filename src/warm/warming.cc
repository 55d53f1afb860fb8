#include "src/warm/warming.h"

#include <poll.h>
#include <time.h>

#include <algorithm>
#include <new>

#include "src/log.h"
#include "src/process/thread.h"

namespace server {
namespace {

// Few enough that nobody waits long behind them at the source.
constexpr size_t kBatch = 32;
constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kLogEvery = 10 * kSecond;
constexpr int kSleepMs = 50;

int64_t NowNs() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * kSecond + time.tv_nsec;
}

}  // namespace

Warming::Warming(const WarmOptions& options, kbf::Store& store, const Clock& clock)
    : options_(options),
      name_(options.host + ":" + std::to_string(options.port)),
      store_(store),
      clock_(clock),
      flushes_(store.num_flushes()),
      source_({options.host, options.port}, store.config().item_bytes_max, stop_) {
  counters_.running = true;
  if (!store_.BeginWarming()) {
    counters_.running = false;
    ++counters_.errors;
    Log(kLogAlways, "warming from %s: no memory for it", name_.c_str());
    return;
  }
  thread_ = StartThread([this] { Run(); });
}

Warming::~Warming() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

void Warming::Run() noexcept {
  started_ns_ = logged_ns_ = free_at_ns_ = NowNs();
  std::string error;
  try {
    error = TakeOver();
  } catch (const std::bad_alloc&) {
    error = "no memory";
  }
  store_.EndWarming();
  const double seconds = static_cast<double>(NowNs() - started_ns_) / kSecond;
  const auto number = [](const std::atomic<uint64_t>& counter) {
    return static_cast<unsigned long long>(counter.load());
  };
  if (error.empty()) {
    Log(kLogAlways, "warming from %s: done in %.1f s, %llu keys listed, %llu items stored%s",
        name_.c_str(), seconds, number(counters_.listed), number(counters_.stored),
        IsFlushed() ? "; a flush has ended it" : "");
  } else if (!stop_) {
    ++counters_.errors;
    Log(kLogAlways, "warming from %s: ended by an error after %llu items: %s", name_.c_str(),
        number(counters_.stored), error.c_str());
  }
  counters_.running = false;
}

std::string Warming::TakeOver() {
  if (std::string error = source_.Connect(); !error.empty()) return error;
  for (const bool again : {false, true}) {
    if (IsFlushed()) return {};
    // A list ends with its connection's last line, so the second one needs a connection of its own.
    if (again) {
      if (std::string error = source_.Connect(); !error.empty()) return error;
    }
    if (std::string error = TakeOverListed(again); !error.empty()) return error;
  }
  return {};
}

std::string Warming::TakeOverListed(bool again) {
  if (std::string error = source_.BeginList(); !error.empty()) return error;
  std::vector<std::string> keys;
  std::vector<std::string> wanted;
  for (;;) {
    if (std::string error = source_.NextKeys(kBatch, &keys); !error.empty()) return error;
    if (keys.empty() || IsFlushed()) return {};
    if (!again) counters_.listed += keys.size();
    const uint32_t now = clock_.Now();
    for (std::string& key : keys) {
      if (!again || !store_.Get(key, {.bump = false}, now).hit) wanted.push_back(std::move(key));
    }
    if (wanted.size() < kBatch && keys.size() == kBatch) continue;
    if (std::string error = FetchAndStore(wanted); !error.empty()) return error;
    wanted.clear();
    LogProgress();
  }
}

std::string Warming::FetchAndStore(const std::vector<std::string>& keys) {
  for (size_t i = 0; i < keys.size(); i += kBatch) {
    const auto first = keys.begin() + static_cast<std::ptrdiff_t>(i);
    const auto count = static_cast<std::ptrdiff_t>(std::min(kBatch, keys.size() - i));
    KeepRate(static_cast<uint64_t>(count));
    std::string error = source_.Fetch(std::vector<std::string>(first, first + count),
                                      [this](const WarmSource::Item& item) { Store(item); });
    if (!error.empty()) return error;
  }
  return {};
}

void Warming::Store(const WarmSource::Item& item) {
  ++counters_.fetched;
  if (item.ttl_s == 0) return;
  const uint32_t now = clock_.Now();
  kbf::WriteRequest request;
  request.mode = kbf::WriteMode::kAdd;
  request.key = item.key;
  request.value = item.value;
  request.flags = item.flags;
  if (item.ttl_s) {
    constexpr int64_t kLatest = INT32_MAX;  // as far as the clock goes in 68 years
    request.expires = now + static_cast<uint32_t>(std::min(*item.ttl_s, kLatest));
  }
  request.base64_key = item.base64_key;
  request.warming = true;
  counters_.stored += store_.Write(request, now).status == kbf::StoreStatus::kOk;
}

// Waits until so many more items may be asked for.
void Warming::KeepRate(uint64_t items) {
  while (!stop_) {
    const int64_t wait_ms = (free_at_ns_ - NowNs()) / 1'000'000;
    if (wait_ms <= 0) break;
    (void)poll(nullptr, 0, static_cast<int>(std::min<int64_t>(wait_ms, kSleepMs)));
  }
  // What was not used of the last moments is not made up for later.
  free_at_ns_ = std::max(free_at_ns_, NowNs() - kSecond / 100) +
                static_cast<int64_t>(items) * kSecond / options_.rate;
}

void Warming::LogProgress() {
  const int64_t now = NowNs();
  if (now - logged_ns_ < kLogEvery) return;
  logged_ns_ = now;
  Log(kLogAlways, "warming from %s: %llu keys listed, %llu items stored so far", name_.c_str(),
      static_cast<unsigned long long>(counters_.listed.load()),
      static_cast<unsigned long long>(counters_.stored.load()));
}

}  // namespace server
