#include "src/config/tls_options.h"

#include "src/config/option_value.h"
#include "src/process/startup_error.h"

namespace server {
namespace {

constexpr uint32_t kWriteBufferKbMax = 1 << 20;

std::string Named(std::string_view name) { return "-o " + std::string(name); }

void SetText(std::string_view name, std::string_view value, std::string* target) {
  if (value.empty()) throw StartupError(Named(name) + " needs a value");
  *target = value;
}

uint32_t Number(std::string_view name, std::string_view value, uint32_t min, uint32_t max) {
  return static_cast<uint32_t>(ParseWhole(Named(name), value, min, max));
}

// memcached takes OpenSSL's numbers; its help names PEM, DER and ENGINE.
uint32_t KeyFormat(std::string_view value) {
  if (value == "1" || value == "PEM" || value == "pem") return 1;
  if (value == "2" || value == "DER" || value == "der") return 2;
  throw StartupError("-o ssl_keyformat needs PEM (1) or DER (2), not " + Quoted(value));
}

uint32_t MinVersion(std::string_view value) {
  if (value == "0" || value == "1") {
    throw StartupError("-o ssl_min_version=" + std::string(value) +
                       ": TLS 1.0 and 1.1 are not offered: give 2 (TLS 1.2) or 3 (TLS 1.3)");
  }
  return Number("ssl_min_version", value, 2, 3);
}

}  // namespace

bool ApplyTlsOption(std::string_view name, std::string_view value, TlsOptions* options,
                    bool* inert) {
  *inert = name == "ssl_wbuf_size" || name == "ssl_kernel_tls";
  if (name == "ssl_chain_cert") {
    SetText(name, value, &options->chain_cert);
  } else if (name == "ssl_key") {
    SetText(name, value, &options->key);
  } else if (name == "ssl_ca_cert") {
    SetText(name, value, &options->ca_cert);
  } else if (name == "ssl_ciphers") {
    SetText(name, value, &options->ciphers);
  } else if (name == "ssl_verify_mode") {
    options->verify_mode = Number(name, value, 0, 3);
  } else if (name == "ssl_keyformat") {
    options->key_format = KeyFormat(value);
  } else if (name == "ssl_min_version") {
    options->min_version = MinVersion(value);
  } else if (name == "ssl_wbuf_size") {
    options->write_buffer_kb = Number(name, value, 1, kWriteBufferKbMax);
  } else if (name == "ssl_session_cache") {
    options->session_cache = true;
  } else if (name == "ssl_kernel_tls") {
    options->kernel_tls = true;
  } else {
    return false;
  }
  return true;
}

void CheckTlsOptions(const TlsOptions& options) {
  if (!options.enabled) return;
  if (options.chain_cert.empty()) {
    throw StartupError("-Z needs a certificate: give -o ssl_chain_cert=FILE,ssl_key=FILE");
  }
  if (options.verify_mode != 0 && options.ca_cert.empty()) {
    throw StartupError("-o ssl_verify_mode=" + std::to_string(options.verify_mode) +
                       " needs to know who issues the certificates of clients: give "
                       "-o ssl_ca_cert=FILE");
  }
  if (options.key_format == 2 && options.key.empty()) {
    throw StartupError("-o ssl_keyformat=DER needs -o ssl_key=FILE: only PEM files hold both");
  }
}

}  // namespace server
