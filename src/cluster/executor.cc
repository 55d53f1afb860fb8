#include "src/cluster/executor.h"

#include <new>

#include "src/io/transport.h"

namespace server {
namespace {

// Takes everything at once.
class StringTransport final : public Transport {
 public:
  explicit StringTransport(std::string* out) : Transport(-1), out_(out) {}
  IoStatus Handshake() override { return IoStatus::kOk; }
  IoResult Read(std::span<char>) override { return {IoStatus::kEnd, 0}; }
  IoResult Write(std::span<const iovec> pieces) override {
    size_t bytes = 0;
    for (const iovec& piece : pieces) {
      out_->append(static_cast<const char*>(piece.iov_base), piece.iov_len);
      bytes += piece.iov_len;
    }
    return {IoStatus::kOk, bytes};
  }
  bool HasPending() const override { return false; }
  IoStatus Shutdown() override { return IoStatus::kOk; }

 private:
  std::string* const out_;
};

}  // namespace

bool Executor::Execute(protocol::Request request, uint32_t now, std::string* reply) {
  const size_t before = reply->size();
  try {
    unsigned budget = 1;
    dispatcher_.Begin(&session_, now);
    (void)dispatcher_.Submit(&request, &budget);
    dispatcher_.Finish();
    StringTransport transport(reply);
    Output::FlushStatus status;
    do {
      size_t sent = 0;
      status = output_.Flush(transport, &sent);
    } while (status == Output::FlushStatus::kPaused);
    if (!output_.failed()) return true;
  } catch (const std::bad_alloc&) {
    dispatcher_.Abandon();
  }
  output_.Clear();
  reply->resize(before);
  return false;
}

}  // namespace server
