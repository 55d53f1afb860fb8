#include "tools/kbfload/session_values.h"

#include <array>
#include <charconv>
#include <cstring>
#include <string_view>

#include "storage/hash.h"

namespace load {
namespace {

constexpr std::array<std::string_view, 32> kFirstNames = {
    "Maria",  "James",  "Wei",    "Fatima", "Olivia", "Noah",   "Yuki",     "Carlos",
    "Aisha",  "Lukas",  "Emma",   "Ivan",   "Priya",  "Ahmed",  "Sofia",    "Daniel",
    "Chloe",  "Mateo",  "Hannah", "Omar",   "Ingrid", "Pedro",  "Nadia",    "Oscar",
    "Amelie", "Rajesh", "Elena",  "Thomas", "Zeynep", "Miguel", "Katarina", "Liam"};
constexpr std::array<std::string_view, 32> kLastNames = {
    "Keller",  "Smith",   "Chen",     "Garcia", "Okafor",    "Nguyen", "Tanaka", "Silva",
    "Hassan",  "Fischer", "Johnson",  "Petrov", "Sharma",    "Ali",    "Rossi",  "Cohen",
    "Dubois",  "Lopez",   "Andersen", "Farouk", "Lindqvist", "Santos", "Haddad", "Berg",
    "Lefevre", "Gupta",   "Popescu",  "Wilson", "Yilmaz",    "Moreno", "Novak",  "Murphy"};
constexpr std::array<std::string_view, 8> kLocales = {"de-DE", "en-US", "en-GB", "fr-FR",
                                                      "ja-JP", "es-ES", "pt-BR", "zh-CN"};
constexpr std::array<std::string_view, 4> kHosts = {"example.org", "example.com",
                                                    "mail.example.net", "post.example.edu"};
constexpr std::array<std::string_view, 4> kRoles = {"\"customer\"", "\"customer\",\"reviewer\"",
                                                    "\"customer\",\"seller\"", "\"staff\""};
constexpr std::array<std::string_view, 3> kThemes = {"dark", "light", "system"};

// Writes text and draws; every draw has its own word.
class Writer {
 public:
  Writer(uint64_t word, char* out) : state_(kbf::Mix64(word + 0x5851f42d4c957f2du)), out_(out) {}

  uint64_t Draw(uint64_t range) {
    state_ += 0x9e3779b97f4a7c15u;
    return kbf::ScaleTo(kbf::Mix64(state_), range);
  }
  template <size_t N>
  std::string_view One(const std::array<std::string_view, N>& of) {
    return of[Draw(N)];
  }
  void Text(std::string_view text) {
    std::memcpy(out_, text.data(), text.size());
    out_ += text.size();
  }
  void Lower(std::string_view text) {
    for (const char c : text) *out_++ = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  }
  void Number(uint64_t number) { out_ = std::to_chars(out_, out_ + 20, number).ptr; }
  void Padded(uint64_t number, int digits) {
    for (int i = digits; i-- > 0; number /= 10) out_[i] = static_cast<char>('0' + number % 10);
    out_ += digits;
  }
  void Hex(int digits) {
    for (int i = 0; i < digits; ++i) *out_++ = "0123456789abcdef"[Draw(16)];
  }
  char* end() const { return out_; }

 private:
  uint64_t state_;
  char* out_;
};

}  // namespace

size_t WriteSession(uint64_t word, char* out) {
  Writer to(word, out);
  const std::string_view first = to.One(kFirstNames);
  const std::string_view last = to.One(kLastNames);
  to.Text("{\"id\":");
  to.Number(to.Draw(100000000));
  to.Text(",\"user\":{\"name\":\"");
  to.Text(first);
  to.Text(" ");
  to.Text(last);
  to.Text("\",\"email\":\"");
  to.Lower(first);
  to.Text(".");
  to.Lower(last);
  to.Text("@");
  to.Text(to.One(kHosts));
  to.Text("\",\"locale\":\"");
  to.Text(to.One(kLocales));
  to.Text("\"},\"created\":\"2026-");
  to.Padded(1 + to.Draw(12), 2);
  to.Text("-");
  to.Padded(1 + to.Draw(28), 2);
  to.Text("T");
  to.Padded(to.Draw(24), 2);
  to.Text(":");
  to.Padded(to.Draw(60), 2);
  to.Text(":");
  to.Padded(to.Draw(60), 2);
  to.Text("Z\",\"last_seen\":");
  to.Number(1773000000 + to.Draw(1 << 23));
  to.Text(",\"roles\":[");
  to.Text(to.One(kRoles));
  to.Text("],\"cart\":[");
  const uint64_t lines = to.Draw(3);
  for (uint64_t line = 0; line < lines; ++line) {
    to.Text(line == 0 ? "{\"sku\":\"K-" : ",{\"sku\":\"K-");
    to.Padded(to.Draw(100000), 5);
    to.Text("\",\"quantity\":");
    to.Number(1 + to.Draw(3));
    to.Text(",\"price\":");
    to.Number(1 + to.Draw(100));
    to.Text(to.Draw(2) == 0 ? ".95}" : ".50}");
  }
  to.Text("],\"theme\":\"");
  to.Text(to.One(kThemes));
  to.Text(to.Draw(2) == 0 ? "\",\"newsletter\":true,\"token\":\""
                          : "\",\"newsletter\":false,\"token\":\"");
  to.Hex(24);
  to.Text("\"}");
  return static_cast<size_t>(to.end() - out);
}

}  // namespace load
