#include "src/config/option_list.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <variant>

#include "src/config/option_value.h"
#include "src/process/startup_error.h"

namespace server {

namespace {

constexpr uint32_t kAny32 = std::numeric_limits<uint32_t>::max();
constexpr uint32_t kSecondsMax = std::numeric_limits<int32_t>::max();

// A number and what it may be.
struct Whole {
  uint32_t* target;
  uint32_t min;
  uint32_t max;
};
struct Real {
  double* target;
  RealRange range;
};

struct Suboption {
  std::string_view name;
  std::variant<bool*, Whole, Real> value;  // bool: no value, and a "no_" form
  bool inert = true;
};

std::vector<Suboption> SuboptionsOf(Options* options) {
  InertSettings& inert = options->inert;
  return {
      {"maxconns_fast", &options->maxconns_fast, false},
      {"track_sizes", &options->track_sizes, false},
      {"idle_timeout", Whole{&options->idle_timeout_s, 0, kSecondsMax}, false},
      {"drop_privileges", &inert.drop_privileges},
      {"hashpower", Whole{&inert.hashpower, 12, 32}},
      {"hashexpand", &inert.hash_expand},
      {"slab_reassign", &inert.slab_reassign},
      {"slab_automove", Whole{&inert.slab_automove, 0, 2}},
      {"slab_automove_ratio", Real{&inert.slab_automove_ratio, {0, 1, true}}},
      {"slab_automove_window", Whole{&inert.slab_automove_window, 3, kAny32}},
      {"slab_automove_freeratio", Real{&inert.slab_automove_freeratio, {0, 1}}},
      {"slab_chunk_max", Whole{&inert.slab_chunk_bytes_max, 1, kAny32}},
      {"chunked_items", &inert.chunked_items},
      {"lru_crawler", &inert.lru_crawler},
      {"lru_crawler_sleep", Whole{&inert.lru_crawler_sleep_us, 0, 1'000'000}},
      {"lru_crawler_tocrawl", Whole{&inert.lru_crawler_tocrawl, 0, kAny32}},
      {"lru_maintainer", &inert.lru_maintainer},
      {"hot_lru_pct", Whole{&inert.hot_lru_percent, 1, 79}},
      {"warm_lru_pct", Whole{&inert.warm_lru_percent, 1, 79}},
      {"hot_max_factor", Real{&inert.hot_max_factor, {0, 1e9, true}}},
      {"warm_max_factor", Real{&inert.warm_max_factor, {0, 1e9, true}}},
      {"temporary_ttl", Whole{&inert.temporary_ttl_s, 0, kSecondsMax}},
      {"tail_repair_time", Whole{&inert.tail_repair_time_s, 10, kSecondsMax}},
      {"watcher_logbuf_size", Whole{&inert.watcher_logbuf_kb, 0, kAny32 >> 10}},
      {"worker_logbuf_size", Whole{&inert.worker_logbuf_kb, 0, kAny32 >> 10}},
      {"inline_ascii_resp", &inert.inline_ascii_response},
      {"resp_obj_mem_limit", Whole{&inert.resp_obj_mem_limit_mb, 0, kAny32}},
      {"sock_cookie_id", Whole{&inert.sock_cookie_id, 0, kAny32}},
      {"modern", &inert.modern},
  };
}

void RefuseUnsupported(std::string_view name) {
  struct Family {
    std::string_view prefix;
    const char* what;
  };
  constexpr Family kFamilies[] = {
      {"ext_", "external storage"}, {"proxy_", "the proxy"}, {"ssl_", "TLS"}};
  for (const Family& family : kFamilies) {
    if (!name.starts_with(family.prefix)) continue;
    throw StartupError("-o " + std::string(name) + ": " + family.what +
                       " is not supported: leave this option out");
  }
}

// "100-200-400": bytes, ascending.
void CheckSlabSizes(std::string_view sizes) {
  int64_t last = 0;
  while (true) {
    const size_t dash = std::min(sizes.find('-'), sizes.size());
    last = ParseWhole("-o slab_sizes", sizes.substr(0, dash), last + 1, 1 << 30);
    if (dash == sizes.size()) return;
    sizes.remove_prefix(dash + 1);
  }
}

void CheckHashAlgorithm(std::string_view name, OptionRemarks* remarks) {
  if (name == "xxh3") return;
  if (name != "jenkins" && name != "murmur3") {
    throw StartupError("-o hash_algorithm needs jenkins, murmur3 or xxh3, not " + Quoted(name));
  }
  remarks->warnings.push_back("-o hash_algorithm: keys are hashed by xxh3 with a secret, not by " +
                              std::string(name));
}

// The defaults of memcached 1.4.
void GoBack(Options* options) {
  options->maxconns_fast = false;
  options->inert.slab_reassign = false;
  options->inert.slab_automove = 0;
  options->inert.lru_crawler = false;
  options->inert.lru_maintainer = false;
}

// Those whose value is not a plain number. False where `name` is none of them.
bool ApplySpecial(std::string_view name, std::string_view value, Options* options,
                  OptionRemarks* remarks) {
  if (name == "read_buf_mem_limit") {
    const int64_t megabytes = ParseWhole("-o read_buf_mem_limit", value, 0, 1 << 24);
    options->read_buffer_bytes_max = static_cast<uint64_t>(megabytes) << 20;
  } else if (name == "hash_algorithm") {
    CheckHashAlgorithm(value, remarks);
  } else if (name == "slab_sizes") {
    CheckSlabSizes(value);
    remarks->inert.push_back("-o slab_sizes");
  } else {
    return false;
  }
  return true;
}

void ApplyOne(std::string_view element, Options* options, OptionRemarks* remarks) {
  const size_t equals = element.find('=');
  const bool has_value = equals != element.npos;
  const std::string_view name = element.substr(0, equals);
  const std::string_view value = has_value ? element.substr(equals + 1) : "";
  const std::string shown = "-o " + std::string(name);
  RefuseUnsupported(name);
  if (ApplySpecial(name, value, options, remarks)) return;

  const bool negated = name.starts_with("no_");
  const std::string_view base = negated ? name.substr(3) : name;
  for (const Suboption& known : SuboptionsOf(options)) {
    const auto* flag = std::get_if<bool*>(&known.value);
    // slab_automove has a number and can be turned on and off as well.
    const bool is_switch = flag != nullptr || known.name == "slab_automove";
    if (known.name != base || (negated && !is_switch)) continue;
    if (flag != nullptr) {
      // memcached takes "=0" for on, so the value cannot be followed, but it can be mentioned.
      if (has_value) remarks->warnings.push_back(shown + " takes no value; it is ignored");
      **flag = !negated;
    } else if (const auto* whole = std::get_if<Whole>(&known.value)) {
      *whole->target =
          is_switch && !has_value
              ? !negated
              : static_cast<uint32_t>(ParseWhole(shown, value, whole->min, whole->max));
    } else {
      const auto& real = std::get<Real>(known.value);
      *real.target = ParseReal(shown, value, real.range);
    }
    if (base == "temporary_ttl") options->inert.temp_lru = true;
    if (name == "no_modern") GoBack(options);
    if (known.inert) remarks->inert.push_back(shown);
    return;
  }
  throw StartupError("-o: unknown option " + Quoted(name) + ": kbfcached(1) lists what there is");
}

}  // namespace

void ApplyOptionList(std::string_view list, Options* options, OptionRemarks* remarks) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    if (comma > 0) ApplyOne(list.substr(0, comma), options, remarks);
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
}

}  // namespace server
