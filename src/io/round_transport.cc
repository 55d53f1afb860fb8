#include "src/io/round_transport.h"

#include <optional>

namespace server {

void RoundTransport::ReadAhead(size_t member) {
  if (!reads_much_) round_.Ask(member, fd());
}

IoResult RoundTransport::Read(std::span<char> into) {
  const std::optional<IoResult> taken = round_.TakeReceived(fd(), into);
  IoResult result = taken ? *taken : PlainTransport::Read(into);
  if (result.status != IoStatus::kOk) return result;
  // A full slice means that there may be more.
  if (taken && result.bytes == Round::kSliceBytes && into.size() > result.bytes) {
    const IoResult more = PlainTransport::Read(into.subspan(result.bytes));
    // Any other outcome comes again with the next Read.
    if (more.status == IoStatus::kOk) result.bytes += more.bytes;
  }
  reads_much_ = result.bytes > Round::kSliceBytes;
  return result;
}

}  // namespace server
