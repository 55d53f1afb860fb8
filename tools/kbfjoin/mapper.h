// The mapper: passes on the records whose key the filter may hold ([MPCBF] §V), and drops the
// others.
//
// Promises:  no record whose key was in the filter's keys is dropped. Of the others, the filter's
//            false positive rate passes; the reducer finds no partner for them.
// Costs:     words are asked for 256 records at a time, so that their cache misses overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "storage/membership/mpcbf_image.h"
#include "tools/kbfjoin/line_reader.h"
#include "tools/kbfjoin/records.h"

namespace join {

inline constexpr size_t kBatchRecords = 256;

struct MapSettings {
  RecordForm form;
  std::string tag;        // written between key and value; empty: none
  bool skip_bad = false;  // bad records are counted and dropped, not an error
};

struct MapCounts {
  uint64_t read = 0;
  uint64_t passed = 0;
  uint64_t dropped = 0;
  uint64_t skipped = 0;  // bad records
};

// `filter` null: all records pass. Throws tools::FileError. What was passed before an error has
// been written.
MapCounts Map(LineReader* input, const kbf::MpcbfImage* filter, const MapSettings& settings,
              tools::Output* output);

// The hashes of the keys of all records. Throws tools::FileError. Adds bad records to *skipped
// where they are skipped.
void ReadKeys(LineReader* input, const kbf::HashSecret& secret, const RecordForm& form,
              bool skip_bad, std::vector<kbf::KeyHash>* hashes, uint64_t* skipped);

}  // namespace join
