#include "tools/kbfflow/capture.h"

#include <pcap/pcap.h>

#include <cstdio>
#include <utility>

namespace flow {

namespace {

using tools::FileError;

// Link layer, two VLAN tags, IPv6 with a few extension headers, TCP.
constexpr int kSnapBytes = 256;
constexpr int kBufferBytes = 16 << 20;
constexpr int kWaitMilliseconds = 100;

// Throws for a status of pcap_activate and the like that is an error; a warning is none.
void Check(int status, pcap_t* handle, const std::string& name) {
  if (status >= 0) return;
  std::string why = pcap_statustostr(status);
  const std::string detail = pcap_geterr(handle);
  if (!detail.empty()) why += " (" + detail + ")";
  if (status == PCAP_ERROR_PERM_DENIED) why += "; capturing needs root or CAP_NET_RAW";
  pcap_close(handle);
  throw FileError("cannot capture on " + name + ": " + why);
}

}  // namespace

void Capture::Close::operator()(pcap* handle) const { pcap_close(handle); }

Capture::Capture(pcap* handle, std::string name, bool is_live)
    : handle_(handle), name_(std::move(name)), is_live_(is_live) {
  const int type = pcap_datalink(handle);
  const auto link = LinkLayerOf(type);
  if (!link) {
    const char* known = pcap_datalink_val_to_name(type);
    throw FileError("cannot read " + name_ + ": its link type is " + std::to_string(type) +
                    (known == nullptr ? "" : std::string(" (") + known + ")") +
                    "; Ethernet, Linux cooked, raw IP and loopback are known");
  }
  link_layer_ = *link;
}

Capture Capture::OpenFile(const std::string& path, const CaptureSettings& settings) {
  char error[PCAP_ERRBUF_SIZE] = "";
  const std::string name = path == "-" ? "standard input" : path;
  pcap_t* handle =
      pcap_open_offline_with_tstamp_precision(path.c_str(), PCAP_TSTAMP_PRECISION_MICRO, error);
  if (handle == nullptr) {
    // Some of libpcap's messages begin with the name.
    std::string why = error;
    if (why.starts_with(path + ": ")) why.erase(0, path.size() + 2);
    throw FileError("cannot read " + name + ": " + why);
  }
  Capture capture(handle, name, false);
  capture.SetFilter(settings.only);
  return capture;
}

Capture Capture::OpenStream(void* file, const std::string& name) {
  char error[PCAP_ERRBUF_SIZE] = "";
  pcap_t* handle = pcap_fopen_offline(static_cast<FILE*>(file), error);
  if (handle == nullptr) {
    std::fclose(static_cast<FILE*>(file));
    throw FileError("cannot read " + name + ": " + error);
  }
  return Capture(handle, name, false);
}

Capture Capture::OpenInterface(const std::string& name, const CaptureSettings& settings) {
  char error[PCAP_ERRBUF_SIZE] = "";
  pcap_t* handle = pcap_create(name.c_str(), error);
  if (handle == nullptr) throw FileError("cannot capture on " + name + ": " + error);
  Check(pcap_set_snaplen(handle, kSnapBytes), handle, name);
  Check(pcap_set_promisc(handle, settings.promiscuous ? 1 : 0), handle, name);
  Check(pcap_set_timeout(handle, kWaitMilliseconds), handle, name);
  Check(pcap_set_buffer_size(handle, kBufferBytes), handle, name);
  Check(pcap_activate(handle), handle, name);
  Capture capture(handle, name, true);
  capture.SetFilter(settings.only);
  return capture;
}

void Capture::SetFilter(const std::string& only) {
  if (only.empty()) return;
  bpf_program program;
  if (pcap_compile(handle_.get(), &program, only.c_str(), 1, PCAP_NETMASK_UNKNOWN) != 0) {
    throw FileError("cannot use the filter '" + only + "': " + pcap_geterr(handle_.get()));
  }
  const int status = pcap_setfilter(handle_.get(), &program);
  pcap_freecode(&program);
  if (status != 0) {
    throw FileError("cannot use the filter '" + only + "': " + pcap_geterr(handle_.get()));
  }
}

Capture::Status Capture::Next(CapturedPacket* packet) {
  pcap_pkthdr* head = nullptr;
  const u_char* bytes = nullptr;
  switch (pcap_next_ex(handle_.get(), &head, &bytes)) {
    case 1: {
      const auto seconds = static_cast<uint64_t>(head->ts.tv_sec);
      packet->time_us = seconds * 1'000'000 + static_cast<uint64_t>(head->ts.tv_usec);
      packet->bytes = {bytes, head->caplen};
      packet->wire_bytes = head->len;
      return Status::kPacket;
    }
    case 0:
      return Status::kNothing;
    case PCAP_ERROR_BREAK:
      return Status::kEnd;
    default:
      error_ = (is_live_ ? "cannot go on capturing on " : "cannot read on in ") + name_ + ": " +
               pcap_geterr(handle_.get());
      return Status::kBroken;
  }
}

void Capture::Stop() { pcap_breakloop(handle_.get()); }

CaptureCounts Capture::Counts() const {
  pcap_stat counts;
  if (!is_live_ || pcap_stats(handle_.get(), &counts) != 0) return {};
  return {uint64_t{counts.ps_drop} + counts.ps_ifdrop};
}

}  // namespace flow
