#include "protocol/base64.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace protocol {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr char kPadding = '=';
constexpr uint8_t kNoSymbol = 0xff;

constexpr std::array<uint8_t, 256> MakeSymbols() {
  std::array<uint8_t, 256> symbols{};
  symbols.fill(kNoSymbol);
  for (size_t i = 0; i < kAlphabet.size(); ++i) {
    symbols[static_cast<uint8_t>(kAlphabet[i])] = static_cast<uint8_t>(i);
  }
  symbols[static_cast<uint8_t>(kPadding)] = 0;  // counts as six zero bits
  return symbols;
}

constexpr std::array<uint8_t, 256> kSymbols = MakeSymbols();

uint8_t SymbolOf(char c) { return kSymbols[static_cast<uint8_t>(c)]; }

}  // namespace

size_t EncodeBase64(std::string_view bytes, char* out) {
  char* at = out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t there = std::min<size_t>(bytes.size() - i, 3);
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) {
      group = group << 8 | (j < there ? static_cast<uint8_t>(bytes[i + j]) : 0);
    }
    for (size_t j = 0; j < 4; ++j) {
      *at++ = j > there ? kPadding : kAlphabet[group >> (18 - 6 * j) & 63];
    }
  }
  return static_cast<size_t>(at - out);
}

std::optional<size_t> DecodeBase64(std::string_view text, char* out) {
  const auto symbols =
      std::count_if(text.begin(), text.end(), [](char c) { return SymbolOf(c) != kNoSymbol; });
  if (symbols == 0 || symbols % 4 != 0) return std::nullopt;
  size_t written = 0;
  uint32_t group = 0;
  unsigned seen = 0, padding = 0;
  for (const char c : text) {
    if (SymbolOf(c) == kNoSymbol) continue;
    padding += c == kPadding;
    group = group << 6 | SymbolOf(c);
    if (++seen % 4 != 0) continue;
    for (const int shift : {16, 8, 0}) out[written++] = static_cast<char>(group >> shift);
    if (padding > 2) return std::nullopt;
    if (padding > 0) return written - padding;
  }
  return written;
}

}  // namespace protocol
