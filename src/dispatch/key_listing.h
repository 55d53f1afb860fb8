// KeyListing is one command that lists keys, on its way through the store: it writes rows to the
// output in steps, and keeps between them only where it is.
//
// Promises:  every item that is in the front from the beginning to the end is listed once. No lock
//            is held between steps, nor while anything is sent.
// Requires:  the worker's thread.
// Costs:     one step takes one slab's lock for up to kListedMax rows.
#pragma once

#include "protocol/key_list.h"
#include "src/io/output.h"
#include "src/state.h"
#include "storage/store.h"

namespace server {

class KeyListing {
 public:
  // REQUIRES: the request has no error to reply
  explicit KeyListing(const protocol::Request& request)
      : op_(request.op),
        classes_(protocol::ClassesOf(request)),
        rows_left_(protocol::RowLimitOf(request)),
        limited_(rows_left_ != 0) {}

  // False: all rows are written. REQUIRES: the output is not full
  bool Step(State& state, uint32_t now, Output* output);

 private:
  class Rows;

  const protocol::Op op_;
  const protocol::ClassSet classes_;
  uint32_t rows_left_;
  const bool limited_;
  unsigned slab_ = 0;
  kbf::ListPosition position_;
};

}  // namespace server
