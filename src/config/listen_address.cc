#include "src/config/listen_address.h"

#include <algorithm>

#include "src/config/option_value.h"
#include "src/process/startup_error.h"

namespace server {

ListenAddress ParseAddress(std::string_view text, uint16_t default_port) {
  const std::string shown = Quoted(text);
  const bool no_tls = text.starts_with("notls:");
  if (no_tls) text.remove_prefix(6);
  std::string_view host = text;
  std::string_view port;
  bool has_port = false;
  if (text.starts_with('[')) {
    const size_t bracket = text.find(']');
    const std::string_view rest = text.substr(std::min(bracket, text.size() - 1) + 1);
    if (bracket == text.npos || !(rest.empty() || rest.starts_with(':'))) {
      throw StartupError("-l needs an address such as [::1]:11211, not " + shown);
    }
    host = text.substr(1, bracket - 1);
    has_port = !rest.empty();
    if (has_port) port = rest.substr(1);
  } else if (std::count(text.begin(), text.end(), ':') == 1) {  // more: an IPv6 address alone
    host = text.substr(0, text.find(':'));
    port = text.substr(host.size() + 1);
    has_port = true;
  }
  if (host.empty()) throw StartupError("-l needs a host before the port in " + shown);
  const int64_t number = has_port ? ParseWhole("the port of -l", port, 0, 65535) : default_port;
  return {std::string(host), static_cast<uint16_t>(number), no_tls};
}

// Spaces around the parts are allowed, as in "a, b".
std::vector<std::string> AddressesIn(std::string_view list) {
  std::vector<std::string> parts;
  while (!list.empty()) {
    const size_t end = std::min(list.find_first_of(",;"), list.size());
    std::string_view part = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    if (!part.empty()) parts.emplace_back(part);
  }
  if (parts.empty()) throw StartupError("-l needs an address, such as 127.0.0.1 or [::1]:11211");
  return parts;
}

}  // namespace server
