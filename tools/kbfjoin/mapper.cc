#include "tools/kbfjoin/mapper.h"

#include <array>

namespace join {

namespace {

// Adds the good ones among the lines of one call of the reader. Throws at the first bad one unless
// they are skipped; `records` has those before it then.
void ReadRecords(const std::vector<std::string_view>& lines, const LineReader& input,
                 const RecordForm& form, bool skip_bad, std::vector<Record>* records,
                 uint64_t* skipped) {
  for (size_t i = 0; i < lines.size(); ++i) {
    const Record record = ReadRecord(lines[i], form);
    if (record.status == RecordStatus::kOk) {
      records->push_back(record);
      continue;
    }
    if (!skip_bad) {
      throw tools::FileError(input.name() + ", " +
                             Explain(record.status, input.first_number() + i, form) +
                             "; --skip-bad leaves such lines out");
    }
    ++*skipped;
  }
}

void PassOn(const std::vector<Record>& records, const kbf::MpcbfImage* filter,
            const MapSettings& settings, MapCounts* counts, tools::Output* output) {
  std::array<kbf::KeyHash, kBatchRecords> hashes;
  std::array<bool, kBatchRecords> passes;
  if (filter == nullptr) {
    passes.fill(true);
  } else {
    for (size_t i = 0; i < records.size(); ++i) {
      hashes[i] = kbf::HashKey(records[i].key, filter->secret);
    }
    filter->filter.MayContainMany({hashes.data(), records.size()}, passes.data());
  }
  for (size_t i = 0; i < records.size(); ++i) {
    ++(passes[i] ? counts->passed : counts->dropped);
    if (passes[i]) AppendRecord(records[i], settings.tag, output);
  }
}

}  // namespace

MapCounts Map(LineReader* input, const kbf::MpcbfImage* filter, const MapSettings& settings,
              tools::Output* output) {
  MapCounts counts;
  std::vector<std::string_view> lines;
  std::vector<Record> records;
  for (;;) {
    records.clear();
    bool more = false;
    try {
      more = input->Next(kBatchRecords, &lines);
      counts.read += lines.size();
      ReadRecords(lines, *input, settings.form, settings.skip_bad, &records, &counts.skipped);
    } catch (const tools::FileError&) {
      PassOn(records, filter, settings, &counts, output);
      output->Flush();
      throw;
    }
    if (!more) break;
    PassOn(records, filter, settings, &counts, output);
  }
  output->Flush();
  return counts;
}

void ReadKeys(LineReader* input, const kbf::HashSecret& secret, const RecordForm& form,
              bool skip_bad, std::vector<kbf::KeyHash>* hashes, uint64_t* skipped) {
  std::vector<std::string_view> lines;
  std::vector<Record> records;
  while (input->Next(kBatchRecords, &lines)) {
    records.clear();
    ReadRecords(lines, *input, form, skip_bad, &records, skipped);
    for (const Record& record : records) hashes->push_back(kbf::HashKey(record.key, secret));
  }
}

}  // namespace join
