// WarmSource is the server that --warm-from names, seen as a client: it lists its keys with
// `lru_crawler metadump` on one connection and asks for their values with `mg` on another.
//
// Promises:  Connect, NextKeys and Fetch give an error in one sentence where the host cannot be
//            reached, speaks something else, or goes away; they return within a fraction of a
//            second after `stop` became true, but for the look-up of a host name.
// Requires:  one thread.
// Costs:     the source is asked for as many values at a time as the caller says. Keys that it has
//            listed wait in the sockets' buffers, so that it goes on when they are taken.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/client.h"
#include "src/config/listen_address.h"

namespace server {

// One connection with what was read from it.
class WarmLink {
 public:
  explicit WarmLink(const std::atomic<bool>& stop) : stop_(stop) {}
  ~WarmLink();
  WarmLink(const WarmLink&) = delete;
  WarmLink& operator=(const WarmLink&) = delete;

  // These give an error, or nothing.
  std::string Connect(const ListenAddress& address);
  std::string Send(std::string_view bytes);
  // Reads what is there, at least one byte.
  std::string Receive();

  std::string_view received() const { return std::string_view(buffer_).substr(begin_); }
  void Drop(size_t bytes);

 private:
  std::string Wait(short events);

  const std::atomic<bool>& stop_;
  int fd_ = -1;
  std::string buffer_;
  size_t begin_ = 0;
};

class WarmSource {
 public:
  // Values larger than `value_bytes_max` are left out.
  WarmSource(const ListenAddress& address, uint64_t value_bytes_max, const std::atomic<bool>& stop)
      : address_(address), value_bytes_max_(value_bytes_max), stop_(stop) {}

  // All of these give an error, or nothing.
  std::string Connect();
  // Begins to list all keys.
  std::string BeginList();
  // Up to `count` more keys; fewer only at the end of the list.
  std::string NextKeys(size_t count, std::vector<std::string>* keys);

  struct Item {
    std::string_view key;
    std::string_view value;
    uint32_t flags = 0;
    std::optional<int64_t> ttl_s;  // nothing: never expires
    bool base64_key = false;
  };
  // Calls `visit` for each key that is there, is not stale, and is not too large.
  std::string Fetch(const std::vector<std::string>& keys,
                    const std::function<void(const Item&)>& visit);

 private:
  std::string TakeReply(const std::string& key, const std::function<void(const Item&)>& visit);
  std::string DiscardReply(size_t bytes);

  const ListenAddress address_;
  const uint64_t value_bytes_max_;
  const std::atomic<bool>& stop_;
  std::optional<WarmLink> list_;
  std::optional<WarmLink> values_;
};

}  // namespace server
