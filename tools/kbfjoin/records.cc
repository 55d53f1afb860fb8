#include "tools/kbfjoin/records.h"

namespace join {

Record ReadRecord(std::string_view line, const RecordForm& form) {
  Record record;
  const auto refuse = [&record](RecordStatus status) {
    record.status = status;
    return record;
  };
  if (line.empty()) return refuse(RecordStatus::kEmpty);
  size_t begin = 0;
  for (unsigned field = 1; field < form.key_field; ++field) {
    const size_t separator = line.find(form.separator, begin);
    if (separator == std::string_view::npos) {
      return refuse(field == 1 ? RecordStatus::kNoSeparator : RecordStatus::kTooFewFields);
    }
    begin = separator + 1;
  }
  const size_t end = line.find(form.separator, begin);
  if (end == std::string_view::npos && form.key_field == 1 && !form.bare_keys) {
    return refuse(RecordStatus::kNoSeparator);
  }
  record.before = line.substr(0, begin);
  record.key = line.substr(begin, end - begin);
  if (end != std::string_view::npos) record.after = line.substr(end + 1);
  if (record.key.empty()) return refuse(RecordStatus::kEmptyKey);
  if (form.separator != '\t' && record.key.find('\t') != std::string_view::npos) {
    return refuse(RecordStatus::kTabInKey);
  }
  return record;
}

std::string Explain(RecordStatus status, uint64_t line, const RecordForm& form) {
  std::string text = "line " + std::to_string(line);
  const std::string separator =
      form.separator == '\t' ? "tab" : std::string{'\'', form.separator, '\''};
  switch (status) {
    case RecordStatus::kOk:
      return text + " is a record";
    case RecordStatus::kEmpty:
      return text + " is empty";
    case RecordStatus::kNoSeparator:
      return text + " has no " + separator +
             (form.key_field == 1 ? "; use --bare-keys for keys without a value"
                                  : "; the key is in field " + std::to_string(form.key_field));
    case RecordStatus::kTooFewFields:
      return text + " has too few fields; the key is in field " + std::to_string(form.key_field);
    case RecordStatus::kEmptyKey:
      return text + " has an empty key";
    case RecordStatus::kTabInKey:
      return text + " has a tab in its key";
  }
  return text;
}

void AppendRecord(const Record& record, std::string_view tag, tools::Output* output) {
  output->Append(record.key);
  if (!tag.empty()) {
    output->Append('\t');
    output->Append(tag);
  }
  if (!record.before.empty() || record.after) output->Append('\t');
  if (record.after) {
    output->Append(record.before);
    output->Append(*record.after);
  } else if (!record.before.empty()) {
    // Without the separator that stood before the key.
    output->Append(record.before.substr(0, record.before.size() - 1));
  }
  output->Append('\n');
}

}  // namespace join
