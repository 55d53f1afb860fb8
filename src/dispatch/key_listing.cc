#include "src/dispatch/key_listing.h"

#include "src/stats/sections.h"

namespace server {

// The rows of one step fit in what an output that is not full has room for.
static_assert(kbf::kListedMax * protocol::kKeyRowBytesMax <=
              Output::kBatch * Output::kReplyBytesMax);

class KeyListing::Rows final : public kbf::ItemVisitor {
 public:
  Rows(KeyListing& listing, State& state, unsigned item_class, Output* output)
      : listing_(listing), state_(state), item_class_(item_class), output_(output) {}

 private:
  void Visit(const kbf::ListedItem& item) override {
    if (listing_.limited_ && listing_.rows_left_ == 0) return;
    protocol::ListedKey listed;
    listed.key = item.key;
    listed.base64 = item.base64_key;
    listed.value_bytes = item.value_bytes;
    listed.item_bytes = kbf::CountedItemBytes(item.key.size(), item.value_bytes, item.flags,
                                              state_.options.store.keep_cas);
    listed.cas = item.cas;
    listed.flags = item.flags;
    listed.expires = item.expires == 0 ? 0 : state_.clock.UnixTime(item.expires);
    listed.last_access = state_.clock.UnixTime(item.last_access);
    listed.fetched = item.fetched;
    listed.item_class = item_class_;
    const size_t bytes =
        protocol::FormatKeyRow(listing_.op_, listed, output_->Room(protocol::kKeyRowBytesMax));
    output_->Commit(bytes);
    if (bytes > 0 && listing_.limited_) --listing_.rows_left_;
  }

  KeyListing& listing_;
  State& state_;
  const unsigned item_class_;
  Output* const output_;
};

bool KeyListing::Step(State& state, uint32_t now, Output* output) {
  kbf::Store& store = *state.store;
  const unsigned slabs_per_class = SlabsPerClass(store);
  while (slab_ < store.num_slabs() && (classes_ >> (slab_ / slabs_per_class + 1) & 1) == 0) {
    ++slab_;
  }
  if (slab_ == store.num_slabs() || (limited_ && rows_left_ == 0)) return false;
  Rows rows(*this, state, slab_ / slabs_per_class + 1, output);
  if (!store.ListItems(slab_, &position_, now, &rows)) {
    ++slab_;
    position_ = {};
  }
  return true;
}

}  // namespace server
