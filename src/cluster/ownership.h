// Ownership says which slabs this node may serve at this moment: a gate per slab that requests
// enter and leave, and the time until which the node's right to serve lasts. The cluster's thread
// opens and closes gates, the workers go through them.
//
// Promises:  after Close has returned, no request is inside, and none enters. What was changed by
//            requests that were inside while the gate was logged is in the slab's changes.
// Requires:  thread-safe; Open and Close by one thread at a time.
// Costs:     a cache line per slab; two atomic additions and a look at the clock per request.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

namespace server {

// Milliseconds of a clock that goes on while the machine sleeps.
uint64_t BootTimeMs();
// A CAS number that a server that starts now begins with: behind those of all that started before,
// as long as none gives out a million in a millisecond.
uint64_t CasOfNow();

class Ownership {
 public:
  enum class Gate : uint8_t {
    kForeign,  // another node's, or nobody's
    kOpen,
    kLogged,  // open, and changes are noted: the slab is being copied
    kHeld,    // closed for a moment
  };
  enum class Entry : uint8_t {
    kEntered,
    kForeign,
    kHeld,
    kNoRight,  // the node has not heard of etcd for too long
  };
  // What was changed since the last look.
  struct Changes {
    std::unordered_set<std::string> keys;
    bool flushed = false;
    bool lost = false;  // there was no memory for all of them
  };

  explicit Ownership(unsigned slabs) : gates_(slabs) {}

  unsigned slabs() const { return static_cast<unsigned>(gates_.size()); }

  // ---- workers
  Entry Enter(unsigned slab);
  // Notes the key of a request that may have changed it, or the flush of the whole slab where that
  // is null. REQUIRES: inside
  void NoteChange(unsigned slab, const std::string_view* key);
  bool IsLogged(unsigned slab) const {
    return gates_[slab].mode.load(std::memory_order_relaxed) == Gate::kLogged;
  }
  void Leave(unsigned slab) { gates_[slab].inside.fetch_sub(1, std::memory_order_release); }
  // What was found while inside may be sent to the client only if this is true afterwards: the
  // process may have been stopped meanwhile.
  bool RightLasts() const { return BootTimeMs() < right_ends_ms_.load(std::memory_order_acquire); }
  Gate gate(unsigned slab) const { return gates_[slab].mode.load(std::memory_order_relaxed); }
  // Requests carried out since the start.
  uint64_t requests(unsigned slab) const {
    return gates_[slab].requests.load(std::memory_order_relaxed);
  }

  // ---- the cluster's thread
  void ExtendRight(uint64_t until_ms);
  uint64_t right_ends_ms() const { return right_ends_ms_.load(std::memory_order_relaxed); }
  void Open(unsigned slab, bool logged);
  // Closed for a moment, or for good.
  void Close(unsigned slab, Gate gate);
  Changes TakeChanges(unsigned slab);

 private:
  struct alignas(64) SlabGate {
    std::atomic<uint32_t> inside{0};
    std::atomic<Gate> mode{Gate::kForeign};
    std::atomic<uint64_t> requests{0};
    std::mutex mutex;  // of changes
    Changes changes;
  };

  std::vector<SlabGate> gates_;
  std::atomic<uint64_t> right_ends_ms_{0};
};

}  // namespace server
