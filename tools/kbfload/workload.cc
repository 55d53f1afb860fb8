#include "tools/kbfload/workload.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "protocol/request.h"
#include "storage/hash.h"
#include "tools/kbfload/mix_bits.h"
#include "tools/kbfload/session_values.h"

namespace load {
namespace {

// What a draw is for; each purpose has its own randomness.
enum Purpose : uint64_t { kKeySize, kKeyTail, kValueNumber, kValueSize, kValueTail };

constexpr std::string_view kLetters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr std::string_view kSessionsName = "json";
constexpr uint32_t kNumberLetters = 11;  // 66 bits

// Two letters for every twelve bits.
constexpr auto kLetterPairs = [] {
  std::array<char, 2 * 4096> pairs{};
  for (size_t i = 0; i < 4096; ++i) {
    pairs[2 * i] = kLetters[i % 64];
    pairs[2 * i + 1] = kLetters[i / 64];
  }
  return pairs;
}();

uint32_t DigitsOf(uint64_t number) {
  uint32_t digits = 1;
  for (; number >= 10; number /= 10) ++digits;
  return digits;
}

}  // namespace

bool IsKey(std::string_view bytes) {
  return !bytes.empty() && bytes.size() <= protocol::kKeyBytesMax &&
         std::none_of(bytes.begin(), bytes.end(),
                      [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7f; });
}

Workload::Workload(WorkloadOptions options)
    : options_(std::move(options)),
      salt_(kbf::Mix64(options_.seed + 0x9e3779b97f4a7c15u)),
      key_sizes_(KeySizes(options_.key_size)),
      value_sizes_(ValueSizes(options_.value_size == kSessionsName ? "0" : options_.value_size,
                              options_.value_bytes_max)),
      value_popularity_(std::max<uint64_t>(options_.values, 1), options_.value_zipf),
      sessions_(options_.value_size == kSessionsName) {
  if (options_.names != nullptr) options_.keys = options_.names->size();
  CheckRoom();
  letters_.resize(kPoolOffsets + protocol::kKeyBytesMax);
  bytes_.resize(kPoolOffsets + std::max(options_.value_bytes_max, value_sizes_.max()));
  uint64_t state = salt_;
  for (char& letter : letters_) letter = kLetters[kbf::Mix64(++state) % kLetters.size()];
  for (char& byte : bytes_) byte = static_cast<char>(kbf::Mix64(++state));
}

void Workload::CheckRoom() const {
  const auto refuse = [](const std::string& text) { throw std::invalid_argument(text); };
  if (options_.keys == 0 || options_.keys > kKeysMax) {
    refuse("the number of keys must be between 1 and " + std::to_string(kKeysMax));
  }
  const double room = std::pow(64.0, std::min(key_sizes_.min(), kNumberLetters));
  if (options_.key_prefix.empty() && options_.names == nullptr &&
      2.0 * static_cast<double>(options_.keys) > room) {
    refuse("keys of " + std::to_string(key_sizes_.min()) + " bytes cannot name " +
           std::to_string(options_.keys) + " keys and as many absent keys: make them longer");
  }
  const size_t longest = options_.key_prefix.size() + DigitsOf(AbsentKey(options_.keys));
  if (!options_.key_prefix.empty() && longest > protocol::kKeyBytesMax) {
    refuse("the key prefix is too long: keys have at most 250 bytes");
  }
  if (!(options_.value_zipf >= 0 && options_.value_zipf <= 10)) {
    refuse("the Zipf exponent of values must be between 0 and 10");
  }
  if (options_.value_bytes_max > kValueBytesLimit || options_.value.size() > kValueBytesLimit) {
    refuse("values can have at most " + std::to_string(kValueBytesLimit) + " bytes");
  }
}

uint64_t Workload::Draw(uint64_t purpose, uint64_t what) const {
  return kbf::Mix64(what * 8 + purpose + salt_);
}

// ---- keys ----

uint32_t Workload::KeyBytes(KeyCode code) const {
  if (IsNamed(code)) return static_cast<uint32_t>((*options_.names)[code / 2].size());
  if (!options_.key_prefix.empty()) {
    // Absent keys of numbered keys are the numbers from `keys` on.
    const uint64_t number = code / 2 + (IsAbsentKey(code) ? options_.keys : 0);
    return static_cast<uint32_t>(options_.key_prefix.size()) + DigitsOf(number);
  }
  return key_sizes_.Draw(Draw(kKeySize, code));
}

void Workload::WriteKey(KeyCode code, char* out) const {
  if (IsNamed(code)) {
    const std::string& name = (*options_.names)[code / 2];
    name.copy(out, name.size());
  } else if (!options_.key_prefix.empty()) {
    const uint64_t number = code / 2 + (IsAbsentKey(code) ? options_.keys : 0);
    out += options_.key_prefix.copy(out, options_.key_prefix.size());
    std::to_chars(out, out + 20, number);
  } else {
    WriteNumber(code, KeyBytes(code), out);
  }
}

void Workload::WriteNumber(KeyCode code, uint32_t bytes, char* out) const {
  const uint32_t head = std::min(bytes, kNumberLetters);
  // The salt moves the numbers round in a circle; the mixing keeps them apart.
  uint64_t word = MixBits(code + salt_, 6 * head);
  char letters[kNumberLetters + 1];
  for (uint32_t i = 0; i < kNumberLetters; i += 2, word >>= 12) {
    std::memcpy(letters + i, &kLetterPairs[2 * (word & 4095)], 2);
  }
  std::memcpy(out, letters, head);
  const uint64_t offset = Draw(kKeyTail, code) % kPoolOffsets;
  std::memcpy(out + head, letters_.data() + offset, bytes - head);
}

// ---- values ----

ValueId Workload::ValueOf(KeyCode code) const {
  if (!options_.value.empty()) return {0, static_cast<uint32_t>(options_.value.size())};
  const uint64_t word = Draw(kValueNumber, code + (uint64_t{options_.generation} << 42));
  const uint64_t number = options_.values == 0 ? word : value_popularity_.Draw(word);
  if (sessions_) {
    char session[kSessionBytesMax];
    return {number, static_cast<uint32_t>(WriteSession(number + salt_, session))};
  }
  return {number, value_sizes_.Draw(Draw(kValueSize, number))};
}

void Workload::WriteValue(ValueId value, char* out) const {
  if (!options_.value.empty()) {
    options_.value.copy(out, options_.value.size());
    return;
  }
  if (sessions_) return WriteSessionValue(value, out);
  const uint32_t head = std::min(value.bytes, 8u);
  const uint64_t word = MixBits(value.number + salt_, 8 * head);
  const uint64_t offset = Draw(kValueTail, value.number) % kPoolOffsets;
  std::memcpy(out, &word, head);
  std::memcpy(out + head, bytes_.data() + offset, value.bytes - head);
}

// In another size than its own, a session is cut off or ends with spaces.
void Workload::WriteSessionValue(ValueId value, char* out) const {
  char session[kSessionBytesMax];
  const size_t bytes = std::min<size_t>(WriteSession(value.number + salt_, session), value.bytes);
  std::memcpy(out, session, bytes);
  std::memset(out + bytes, ' ', value.bytes - bytes);
}

bool Workload::IsValue(ValueId value, std::string_view bytes) const {
  if (!options_.value.empty()) return bytes == options_.value;
  if (bytes.size() != value.bytes) return false;
  if (sessions_) {
    const std::string_view kept = bytes.substr(0, kSessionBytesMax);
    char session[kSessionBytesMax];
    WriteSessionValue({value.number, static_cast<uint32_t>(kept.size())}, session);
    return kept == std::string_view(session, kept.size()) &&
           bytes.find_first_not_of(' ', kept.size()) == std::string_view::npos;
  }
  const uint32_t head = std::min(value.bytes, 8u);
  const uint64_t word = MixBits(value.number + salt_, 8 * head);
  const uint64_t offset = Draw(kValueTail, value.number) % kPoolOffsets;
  return std::memcmp(bytes.data(), &word, head) == 0 &&
         std::memcmp(bytes.data() + head, bytes_.data() + offset, value.bytes - head) == 0;
}

}  // namespace load
