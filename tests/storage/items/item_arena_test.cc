#include "storage/items/item_arena.h"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <cstring>
#include <map>
#include <random>
#include <vector>

namespace kbf {
namespace {

constexpr uint64_t kSeed = 12;

uint64_t ResidentPages(const char* memory, uint64_t bytes) {
  std::vector<unsigned char> resident(bytes / ItemArena::kPageBytes);
  REQUIRE(mincore(const_cast<char*>(memory), bytes, resident.data()) == 0);
  uint64_t pages = 0;
  for (const unsigned char page : resident) pages += page & 1;
  return pages;
}

TEST_SUITE("storage") {
  TEST_CASE("blocks of an item arena never overlap, and its bytes are their resident pages") {
    CAPTURE(kSeed);
    const ItemArena::Ptr arena = ItemArena::Create(32 << 20);
    std::mt19937_64 random(kSeed);
    struct Mine {
      uint64_t bytes;
      unsigned char mark;
    };
    std::map<ItemBlock*, Mine> blocks;
    uint64_t wrong = 0;
    const auto check = [&](ItemBlock* block, const Mine& mine) {
      const char* memory = arena->MemoryOf(block);
      for (uint64_t at = 0; at < mine.bytes; at += 997) {
        wrong += static_cast<unsigned char>(memory[at]) != mine.mark;
      }
      const uint64_t slots = (mine.bytes + ItemArena::kSlotBytes - 1) / ItemArena::kSlotBytes;
      wrong += ResidentPages(memory, slots * ItemArena::kSlotBytes) != block->pages;
      wrong += arena->BlockAt(memory) != block;
    };
    for (int i = 0; i < 3000; ++i) {
      if (arena->bytes() < 24 << 20 && random() % 2 == 0) {
        const uint64_t bytes = 1 + (random() % 4 == 0 ? random() % 1500000 : random() % 65536);
        ItemBlock* block = arena->Allocate(bytes);
        REQUIRE(block != nullptr);
        const Mine mine = {bytes, static_cast<unsigned char>(random())};
        std::memset(arena->MemoryOf(block), mine.mark, bytes);
        REQUIRE(blocks.emplace(block, mine).second);
      } else if (!blocks.empty()) {
        auto chosen = blocks.begin();
        std::advance(chosen, random() % blocks.size());
        if (chosen->second.bytes <= ItemArena::kSlotBytes && random() % 2 == 0) {
          chosen->second.bytes = 1 + random() % chosen->second.bytes;
          arena->Trim(chosen->first, chosen->second.bytes);
        } else {
          check(chosen->first, chosen->second);
          arena->Release(chosen->first);
          blocks.erase(chosen);
        }
      }
      uint64_t bytes = 0;
      for (const auto& [block, mine] : blocks) bytes += ItemArena::PagesBytes(mine.bytes);
      wrong += bytes != arena->bytes();
    }
    for (const auto& [block, mine] : blocks) check(block, mine);
    CHECK(wrong == 0);
    for (const auto& [block, mine] : blocks) arena->Release(block);
    CHECK(arena->bytes() == 0);
  }

  TEST_CASE("a block that is referred to outlives its release, and even its arena") {
    ItemArena::Ptr arena = ItemArena::Create(1 << 20);
    ItemBlock* block = arena->Allocate(5000);
    char* memory = arena->MemoryOf(block);
    std::memset(memory, 'x', 5000);
    SharedRef reply(block);
    const uint64_t before = DetachedBytes();
    arena->Release(block);
    CHECK(IsDetached(*reply.get()));
    CHECK(DetachedBytes() == before + 8192);
    CHECK(DetachedAllocatedBytes() <= before);
    CHECK(arena->bytes() == 8192);
    arena.reset();
    CHECK(memory[4999] == 'x');
    reply.Reset();
    CHECK(DetachedBytes() == before);
  }

  TEST_CASE("an item arena that has no addresses left, or is told to fail, gives null") {
    const ItemArena::Ptr arena = ItemArena::Create(1 << 20);
    arena->FailNext(2);
    CHECK(arena->Allocate(1) == nullptr);
    CHECK(arena->Allocate(1) == nullptr);
    std::vector<ItemBlock*> blocks;
    while (ItemBlock* block = arena->Allocate(1 << 20)) blocks.push_back(block);
    CHECK(blocks.size() >= 2);
    CHECK(arena->Allocate(uint64_t{1} << 40) == nullptr);
    for (ItemBlock* block : blocks) arena->Release(block);
    ItemBlock* again = arena->Allocate(1 << 20);
    CHECK(again == blocks[0]);
    arena->Release(again);
  }
}

}  // namespace
}  // namespace kbf
