// RoundTransport is a plain socket that takes part in its worker's rounds. Outside of a round it is
// a PlainTransport.
//
// Requires:  the round outlives it.
// Costs:     a pointer and a flag more than a PlainTransport.
#pragma once

#include "src/io/plain_transport.h"
#include "src/io/round.h"

namespace server {

class RoundTransport final : public PlainTransport {
 public:
  RoundTransport(int fd, Round& round) : PlainTransport(fd), round_(round) {}
  ~RoundTransport() override { round_.Drop(fd()); }

  void ReadAhead(size_t member) override;
  IoResult Read(std::span<char> into) override;
  IoResult Write(std::span<const iovec> pieces) override {
    round_.NoteLongTurn();
    return PlainTransport::Write(pieces);
  }
  bool Defer(std::span<const iovec> pieces) override { return round_.Defer(fd(), pieces); }

 private:
  Round& round_;
  // The last read gave more than a slice: reading ahead would be one call more, and a copy.
  bool reads_much_ = false;
};

}  // namespace server
