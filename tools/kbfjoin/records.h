// What a line says: its join key, and the record as a mapper passes it on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tools/files.h"

namespace join {

struct RecordForm {
  char separator = '\t';
  unsigned key_field = 1;  // from 1
  bool bare_keys = false;  // a line without a separator is a key alone
};

enum class RecordStatus : uint8_t {
  kOk,
  kEmpty,         // the line
  kNoSeparator,   // and bare keys are not allowed
  kTooFewFields,  // the key's is not there
  kEmptyKey,
  kTabInKey,  // it would look like the end of the key behind the mapper
};
struct [[nodiscard]] Record {
  RecordStatus status = RecordStatus::kOk;
  std::string_view key;
  std::string_view before;  // the fields before the key, with the separator behind each
  std::optional<std::string_view> after;  // the fields behind it; nothing where it is the last
};
Record ReadRecord(std::string_view line, const RecordForm& form);

// "line 7 has 2 fields; the key is in field 3".
std::string Explain(RecordStatus status, uint64_t line, const RecordForm& form);

// key, tab, tag, tab, the other fields as they were; without a tag the key and the other fields.
void AppendRecord(const Record& record, std::string_view tag, tools::Output* output);

}  // namespace join
