#include "tools/kbfload/marker.h"

namespace load {
namespace {

bool HoldsMarker(const Address& server, protocol::Wire wire, double timeout_s) {
  Dialogue dialogue(server, wire, timeout_s);
  dialogue.Send({.op = protocol::Op::kGet}, kMarkerKey, "");
  const protocol::Reply reply = dialogue.Receive();
  return reply.kind == protocol::ReplyKind::kValue && reply.key == kMarkerKey &&
         reply.value == kMarkerValue;
}

}  // namespace

std::string ReasonNotToFill(const Address& server, protocol::Wire wire, double timeout_s) {
  const auto items = AskServer(server, wire, timeout_s).items();
  if (items == 0 || HoldsMarker(server, wire, timeout_s)) return "";
  const std::string holds = items ? "holds " + std::to_string(*items) + " items"
                                  : "does not say how many items it holds (curr_items)";
  return server.Name() + " " + holds +
         ", and kbfload did not fill it: fill another server (HOST:PORT), empty this one with "
         "flush_all, or fill it all the same with --force";
}

void StoreMarker(const Address& server, protocol::Wire wire, double timeout_s) {
  Dialogue dialogue(server, wire, timeout_s);
  dialogue.Send({.op = protocol::Op::kSet, .exptime = kMarkerLife_s}, kMarkerKey, kMarkerValue);
  static_cast<void>(dialogue.Receive());
}

}  // namespace load
