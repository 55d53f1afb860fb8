#include "src/config/option_list.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
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
      {"track_sizes", &options->track_sizes},
      {"idle_timeout", Whole{&options->idle_timeout_s, 0, kSecondsMax}, false},
      {"drop_privileges", &inert.drop_privileges},
      {"relaxed_privileges",
       &inert.relaxed_privileges},  // of memcached's debug build, in its tests
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
  constexpr Family kFamilies[] = {{"ext_", "external storage"}, {"proxy_", "the proxy"}};
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

// no_modern: the defaults of memcached 1.4.
void ApplyLegacyDefaults(Options* options) {
  options->maxconns_fast = false;
  options->inert.slab_reassign = false;
  options->inert.slab_automove = 0;
  options->inert.lru_crawler = false;
  options->inert.lru_maintainer = false;
}

// Options whose value is not a plain number. False: `name` is not one of them.
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

// "name=value", "name" or "no_name", in parts.
struct Element {
  std::string_view name;  // with "no_"
  std::string_view base;  // without
  bool negated;
  std::optional<std::string_view> value;
  std::string shown;  // for messages
};

Element ElementOf(std::string_view text) {
  const size_t equals = text.find('=');
  Element element;
  element.name = element.base = text.substr(0, equals);
  element.negated = element.name.starts_with("no_");
  if (element.negated) element.base.remove_prefix(3);
  if (equals != text.npos) element.value = text.substr(equals + 1);
  element.shown = "-o " + std::string(element.name);
  return element;
}

// slab_automove has a number and can be turned on and off as well.
bool IsSwitch(const Suboption& option) {
  return std::holds_alternative<bool*>(option.value) || option.name == "slab_automove";
}

void Set(const Suboption& option, const Element& element, OptionRemarks* remarks) {
  const std::string_view value = element.value.value_or("");
  if (const auto* flag = std::get_if<bool*>(&option.value)) {
    // memcached takes "=0" for on, so the value is ignored, with a warning.
    if (element.value)
      remarks->warnings.push_back(element.shown + " takes no value; it is ignored");
    **flag = !element.negated;
  } else if (const auto* real = std::get_if<Real>(&option.value)) {
    *real->target = ParseReal(element.shown, value, real->range);
  } else {
    const auto& whole = std::get<Whole>(option.value);
    *whole.target =
        IsSwitch(option) && !element.value
            ? !element.negated
            : static_cast<uint32_t>(ParseWhole(element.shown, value, whole.min, whole.max));
  }
}

void ApplyOne(std::string_view text, Options* options, OptionRemarks* remarks) {
  const Element element = ElementOf(text);
  RefuseUnsupported(element.name);
  bool inert = false;
  if (ApplyTlsOption(element.name, element.value.value_or(""), &options->tls, &inert)) {
    if (inert) remarks->inert.push_back(element.shown);
    return;
  }
  if (ApplySpecial(element.name, element.value.value_or(""), options, remarks)) return;
  for (const Suboption& known : SuboptionsOf(options)) {
    if (known.name != element.base || (element.negated && !IsSwitch(known))) continue;
    Set(known, element, remarks);
    if (element.base == "temporary_ttl") options->inert.temp_lru = true;
    if (element.name == "no_modern") ApplyLegacyDefaults(options);
    if (known.inert) remarks->inert.push_back(element.shown);
    return;
  }
  throw StartupError("-o: unknown option " + Quoted(element.name) +
                     ": kbfcached(1) lists the options");
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
