#include <kbf/error.h>

namespace kbf {
inline namespace v0 {

const char* StatusMessage(Status status) {
  switch (status) {
    case Status::kOk:
      return "ok";
    case Status::kNotFound:
      return "the key is not stored";
    case Status::kUndecodable:
      return "the key may be stored, but its value cannot be told";
    case Status::kExists:
      return "the key is stored already";
    case Status::kFull:
      return "there is no room for this change; plan for more keys";
    case Status::kTooManyValues:
      return "there is no room for another distinct value; plan for more";
    case Status::kTooLarge:
      return "the value is longer than the limit";
    case Status::kBadArgument:
      return "an argument is null or out of range";
    case Status::kUnlike:
      return "the maps are not of one family or not of one size";
    case Status::kCannotHalve:
      return "the map was halved as often as it can be";
    case Status::kNoMemory:
      return "there is not enough memory";
    case Status::kSystem:
      return "the operating system gave no random bytes";
  }
  return "unknown status";
}

}  // namespace v0
}  // namespace kbf
