// Key-value Bloom filters as objects: a hundred thousand users and their countries in about 2 MB,
// without the names.
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "storage/kbf.h"
#include "storage/planner.h"

int main() {
  // How large, for two hundred values and the default errors?
  const kbf::Plan plan = kbf::MakePlan({.distinct_values = 200}).plan.value();
  const kbf::HashSecret secret = kbf::HashSecret::Random();
  kbf::SymbolBlocks blocks(plan.layout.symbol_bits, plan.layout.check_bits);
  kbf::Kbf filter = std::move(kbf::Kbf::Create({plan.layout, 100000, plan.load}).filter.value());

  // Each country owns a block of symbols; a user's own symbol is chosen inside it.
  std::vector<kbf::SymbolBlock> country;
  for (uint32_t id = 0; id < 200; ++id)
    country.push_back(*blocks.Allocate(id, plan.layout.check_bits));
  for (uint32_t user = 0; user < 100000; ++user) {
    const kbf::KeyHash key = kbf::HashKey("user:" + std::to_string(user), secret);
    filter.Insert(key, country[user % 200].Choose(kbf::KeyCheck(key)));
  }

  uint32_t right = 0, wrong = 0;
  for (uint32_t user = 0; user < 100000; ++user) {
    const auto found = filter.Query(kbf::HashKey("user:" + std::to_string(user), secret), blocks);
    if (found.outcome == kbf::Outcome::kFound) ++(found.value == user % 200 ? right : wrong);
  }
  std::printf("%u right, %u wrong, %u not found, %.1f bytes per user\n", right, wrong,
              100000 - right - wrong, static_cast<double>(filter.memory_bytes()) / 100000);
  return wrong == 0 && right >= 99800 ? 0 : 1;
}
