// A capture to read packets from: a file that libpcap knows (pcap, pcapng), or an interface.
//
// Promises:  nothing in a file ends the program: what is wrong with it is thrown or returned as one
//            line, and the packets before it have been given out.
// Requires:  one thread. OpenFile | OpenInterface, then Next until it says kEnd or kBroken.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "tools/files.h"
#include "tools/kbfflow/packet.h"

struct pcap;

namespace flow {

struct CaptureSettings {
  std::string only;          // a filter as tcpdump takes it; empty: all packets
  bool promiscuous = false;  // of an interface
};

struct CapturedPacket {
  uint64_t time_us = 0;
  std::span<const uint8_t> bytes;  // until the next call
  size_t wire_bytes = 0;
};

struct CaptureCounts {
  uint64_t dropped = 0;  // that came, but were not read in time
};

class Capture {
 public:
  // Both throw tools::FileError with a line that says what to change. "-" is standard input.
  static Capture OpenFile(const std::string& path, const CaptureSettings& settings);
  static Capture OpenInterface(const std::string& name, const CaptureSettings& settings);
  // Takes over the file; for tests. `file` is a FILE*.
  static Capture OpenStream(void* file, const std::string& name);

  enum class Status : uint8_t {
    kPacket,
    kNothing,  // no packet for a moment; an interface only
    kEnd,
    kBroken,  // error() says why
  };
  Status Next(CapturedPacket* packet);
  // From a signal handler: Next returns kEnd soon.
  void Stop();

  LinkLayer link_layer() const { return link_layer_; }
  const std::string& error() const { return error_; }
  CaptureCounts Counts() const;

 private:
  struct Close {
    void operator()(pcap* handle) const;
  };
  Capture(pcap* handle, std::string name, bool is_live);
  void SetFilter(const std::string& only);

  std::unique_ptr<pcap, Close> handle_;
  std::string name_;
  bool is_live_;
  LinkLayer link_layer_ = LinkLayer::kEthernet;
  std::string error_;
};

}  // namespace flow
