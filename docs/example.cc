// kbf::Map in C++: a country per user in ten lines, then a hundred thousand users in about 2 MB,
// without the names.
#include <kbf/map.h>

#include <cstdint>
#include <cstdio>
#include <iostream>
#include <string>

namespace {

const char* const kCountries[] = {"AR", "BR", "CH", "DE", "FR", "IN", "JP", "KE"};

bool CountryPerUser() {
  kbf::Map map = kbf::Map::Create({.capacity = 1000, .distinct_values = 200}).value();
  if (map.Put("alice", "CH") != kbf::Status::kOk) return false;
  if (map.Put("bob", "KE") != kbf::Status::kOk) return false;
  if (const auto country = map.Get("alice")) std::cout << "alice: " << *country << '\n';
  return map.Delete("bob") == kbf::Status::kOk && !map.Get("bob");
}

std::string UserName(uint32_t number) { return "user:" + std::to_string(number); }

// Two maps of one family, filled apart and joined.
bool ManyUsers(uint32_t users) {
  kbf::Map map = kbf::Map::Create({.capacity = users, .distinct_values = 200}).value();
  kbf::Map second = map.CreateLike().value();
  for (uint32_t user = 0; user < users; ++user) {
    kbf::Map& half = user < users / 2 ? map : second;
    if (half.Put(UserName(user), kCountries[user % 8]) != kbf::Status::kOk) return false;
  }
  if (map.Join(second) != kbf::Status::kOk) return false;

  uint32_t right = 0, wrong = 0;
  for (uint32_t user = 0; user < users; ++user) {
    if (const auto country = map.Get(UserName(user))) {
      ++(*country == kCountries[user % 8] ? right : wrong);
    }
  }
  std::printf("%u right, %u wrong, %u not found, %.1f bytes per user\n", right, wrong,
              users - right - wrong, static_cast<double>(map.memory_bytes()) / users);
  return wrong == 0 && right >= users - users / 500;
}

}  // namespace

int main() { return CountryPerUser() && ManyUsers(100000) ? 0 : 1; }
