#include "tools/cluster/records.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

#include "protocol/base64.h"
#include "tools/cluster/json.h"

namespace cluster {
namespace {

std::string Life(const NodeLife& life) {
  return "[" + Quote(life.id) + "," + Quote(life.incarnation) + "]";
}

NodeLife LifeOf(const Json& json) {
  if (json.items().size() != 2) return {};
  return {json.items()[0].text(), json.items()[1].text()};
}

}  // namespace

bool IsClusterName(std::string_view name) {
  return !name.empty() && name.size() <= 100 && std::ranges::all_of(name, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("-_.:[]").find(c) != std::string_view::npos;
  });
}

std::string Keys::slab(unsigned slab) const {
  char digits[16];
  std::snprintf(digits, sizeof(digits), "%04u", slab);
  return map() + digits;
}

std::string FormatConfig(const ClusterConfig& config) {
  std::string secret(protocol::Base64Bytes(kHashSecretBytes), '\0');
  const std::string_view bytes(reinterpret_cast<const char*>(config.hash_secret.data()),
                               kHashSecretBytes);
  secret.resize(protocol::EncodeBase64(bytes, secret.data()));
  return "{\"slabs\":" + std::to_string(config.slabs) + ",\"hash_secret\":" + Quote(secret) +
         ",\"agreed\":" + Quote(config.agreed) + ",\"secret_check\":" + Quote(config.secret_check) +
         "}";
}

std::optional<ClusterConfig> ParseConfig(std::string_view text) {
  const std::optional<Json> json = Json::Parse(text);
  if (!json) return std::nullopt;
  ClusterConfig config;
  const uint64_t slabs = (*json)["slabs"].Number();
  if (!std::has_single_bit(slabs) || slabs > kSlabsMax) return std::nullopt;
  config.slabs = static_cast<unsigned>(slabs);
  std::string secret = (*json)["hash_secret"].text();
  if (protocol::DecodeBase64(secret, secret.data()) != kHashSecretBytes) return std::nullopt;
  std::memcpy(config.hash_secret.data(), secret.data(), kHashSecretBytes);
  config.agreed = (*json)["agreed"].text();
  config.secret_check = (*json)["secret_check"].text();
  return config;
}

std::string FormatNode(const NodeRecord& node) {
  return "{\"incarnation\":" + Quote(node.incarnation) + ",\"inner\":" + Quote(node.inner) + "}";
}

std::optional<NodeRecord> ParseNode(std::string_view text) {
  const std::optional<Json> json = Json::Parse(text);
  if (!json) return std::nullopt;
  NodeRecord node{(*json)["incarnation"].text(), (*json)["inner"].text()};
  if (node.incarnation.empty() || node.inner.empty()) return std::nullopt;
  return node;
}

std::string FormatMap(const MapRecord& record) {
  std::string text =
      "{\"term\":" + std::to_string(record.term) + ",\"owner\":" + Life(record.owner);
  if (!record.target.empty()) text += ",\"target\":" + Life(record.target);
  if (record.copied_in != 0) text += ",\"copied_in\":" + std::to_string(record.copied_in);
  return text + "}";
}

std::optional<MapRecord> ParseMap(std::string_view text) {
  const std::optional<Json> json = Json::Parse(text);
  if (!json) return std::nullopt;
  MapRecord record;
  record.term = (*json)["term"].Number();
  record.owner = LifeOf((*json)["owner"]);
  record.target = LifeOf((*json)["target"]);
  record.copied_in = (*json)["copied_in"].Number();
  if (record.term == 0 || record.owner.empty()) return std::nullopt;
  return record;
}

std::string FormatFlush(int64_t at_unix) { return "{\"at\":" + std::to_string(at_unix) + "}"; }

std::optional<int64_t> ParseFlush(std::string_view text) {
  const std::optional<Json> json = Json::Parse(text);
  if (!json || (*json)["at"].is_null()) return std::nullopt;
  return static_cast<int64_t>((*json)["at"].Number());
}

}  // namespace cluster
