#include "protocol/tuning.h"

#include <charconv>

#include "protocol/framing.h"
#include "protocol/numbers.h"

namespace protocol {
namespace {

constexpr int32_t kLargestClass = 39;      // of memcached's default sizes
constexpr uint32_t kCrawlClassesEnd = 64;  // what the crawler takes for a class, from 1
constexpr uint32_t kCrawlSleepMax = 1000000;
constexpr uint32_t kAutomoveWindowMin = 3;
constexpr uint32_t kAutomoveWindowMax = 1800;
constexpr uint32_t kMemlimitMin = 8;
constexpr uint32_t kMemlimitMax = 1000000000;

std::optional<double> ParseDouble(std::string_view token) {
  if (token.starts_with('+')) token.remove_prefix(1);
  double value = 0;
  const char* const end = token.data() + token.size();
  const auto [behind, error] = std::from_chars(token.data(), end, value);
  if (error != std::errc()) return std::nullopt;
  if (behind != end && kWhiteSpace.find(*behind) == kWhiteSpace.npos) return std::nullopt;
  return value;
}

// memcached 1.6.45 has `freeratio` and `window` as well.
std::string_view Automove(const AllTokens& tokens) {
  if (tokens[2] == "ratio" || tokens[2] == "freeratio") {
    return tokens.count() >= 4 && ParseDouble(tokens[3]) ? kOkLine : kError;
  }
  if (tokens[2] == "window") {
    const auto window = tokens.count() >= 4 ? ParseU32(tokens[3]) : std::nullopt;
    if (!window) return kBadLine;
    return *window >= kAutomoveWindowMin && *window <= kAutomoveWindowMax
               ? kOkLine
               : "CLIENT_ERROR automove window too low or too high\r\n";
  }
  const auto level = ParseU32(tokens[2]);
  if (!level) return kBadLine;
  return *level <= 2 ? kOkLine : kError;
}

std::string_view Reassign(std::string_view source, std::string_view destination) {
  const auto from = ParseI32(source);
  const auto to = ParseI32(destination);
  if (!from || !to) return kBadLine;
  if (*from == *to) return "SAME src and dst class are identical\r\n";
  if (*from < 0 || *from > kLargestClass || *to < 0 || *to > kLargestClass) {
    return "BADCLASS invalid src or dst class id\r\n";
  }
  return "NOSPARE source class has no spare pages\r\n";
}

std::string_view Slabs(const AllTokens& tokens, bool* quiet) {
  if (tokens.count() == 4 && tokens[1] == "reassign") return Reassign(tokens[2], tokens[3]);
  if (tokens.count() < 3 || tokens[1] != "automove") return kError;
  *quiet = tokens.last() == "noreply";
  return Automove(tokens);
}

std::string_view LruTune(const AllTokens& tokens) {
  const auto hot = ParseU32(tokens[2]);
  const auto warm = ParseU32(tokens[3]);
  const auto hot_factor = ParseDouble(tokens[4]);
  const auto warm_factor = ParseDouble(tokens[5]);
  if (!hot || !warm || !hot_factor || !warm_factor) return kError;
  if (*hot + *warm > 80) return "ERROR hot and warm pcts must not exceed 80\r\n";
  if (*hot_factor <= 0 || *warm_factor <= 0) {
    return "ERROR hot/warm age factors must be greater than 0\r\n";
  }
  return kOkLine;
}

std::string_view Lru(const AllTokens& tokens, bool* quiet) {
  if (tokens.count() < 2) return kError;
  *quiet = tokens.last() == "noreply";
  if (tokens[1] == "tune" && tokens.count() >= 6) return LruTune(tokens);
  if (tokens.count() < 3) return kError;
  const bool good = (tokens[1] == "mode" && (tokens[2] == "flat" || tokens[2] == "segmented")) ||
                    (tokens[1] == "temp_ttl" && ParseI32(tokens[2]));
  return good ? kOkLine : kError;
}

// "all", or classes with commas between them.
std::string_view Crawl(std::string_view classes) {
  if (classes == "all") return kOkLine;
  if (classes == "hash") return "ERROR an unknown error happened\r\n";
  bool any = false;
  while (!classes.empty()) {
    const size_t length = std::min(classes.find(','), classes.size());
    const std::string_view id = classes.substr(0, length);
    classes.remove_prefix(std::min(length + 1, classes.size()));
    if (id.empty()) continue;
    const auto number = ParseU32(id);
    if (!number || *number == 0 || *number >= kCrawlClassesEnd) {
      return "BADCLASS invalid class id\r\n";
    }
    any = true;
  }
  return any ? kOkLine : "NOTSTARTED no items to crawl\r\n";
}

std::string_view LruCrawler(const AllTokens& tokens) {
  if (tokens.count() == 2) {
    return tokens[1] == "enable" || tokens[1] == "disable" ? kOkLine : kError;
  }
  if (tokens.count() != 3) return kError;
  if (tokens[1] == "crawl") return Crawl(tokens[2]);
  if (tokens[1] != "tocrawl" && tokens[1] != "sleep") return kError;
  const auto number = ParseU32(tokens[2]);
  if (!number) return kBadLine;
  if (tokens[1] == "sleep" && *number > kCrawlSleepMax) {
    return "CLIENT_ERROR sleep must be one second or less\r\n";
  }
  return kOkLine;
}

std::string_view CacheMemlimit(const AllTokens& tokens, bool* quiet) {
  if (tokens.count() != 2 && tokens.count() != 3) return kError;
  *quiet = tokens.last() == "noreply";
  const auto megabytes = ParseU32(tokens[1]);
  if (!megabytes) return kError;
  if (*megabytes < kMemlimitMin) {
    return "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n";
  }
  if (*megabytes > kMemlimitMax) {
    return "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\n";
  }
  return "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n";
}

}  // namespace

std::optional<std::string_view> AnswerTuning(const AllTokens& tokens, bool* quiet) {
  const std::string_view name = tokens[0];
  if (name == "slabs") return Slabs(tokens, quiet);
  if (name == "lru") return Lru(tokens, quiet);
  if (name == "lru_crawler") return LruCrawler(tokens);
  if (name == "cache_memlimit") return CacheMemlimit(tokens, quiet);
  if (name == "watch") {
    *quiet = tokens.last() == "noreply";
    return "CLIENT_ERROR watch commands not allowed\r\n";
  }
  return std::nullopt;
}

}  // namespace protocol
