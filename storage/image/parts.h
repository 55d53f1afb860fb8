// What an image needs to see of the parts of a slab, and change in them: they name ImageParts as a
// friend, so that the form of their bytes stands in one place, apart from what they do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "storage/dictionary.h"
#include "storage/image/image.h"
#include "storage/image/image_buffer.h"
#include "storage/kbf.h"
#include "storage/locator.h"
#include "storage/symbol_blocks.h"

namespace kbf {

// Load functions read into a part that is as after construction. False: see the reader's status.
struct ImageParts {
  static void Save(const Kbf& filter, ImageBuffer* out);
  [[nodiscard]] static bool Load(ImageReader* reader, Kbf* filter);

  // Blocks [begin, end) of the locator, as wide as if it had `columns`.
  // REQUIRES: columns <= columns_ready()
  static void SaveBlocks(const Locator& locator, uint64_t begin, uint64_t end, unsigned columns,
                         ImageBuffer* out);
  [[nodiscard]] static bool Load(ImageReader* reader, unsigned columns, Locator* locator);

  static void Save(const Dictionary& dictionary, ImageBuffer* out);
  [[nodiscard]] static bool Load(ImageReader* reader, Dictionary* dictionary);
  static bool HasCode(const Dictionary& dictionary, uint32_t code) {
    return code < dictionary.codes_.size() && dictionary.codes_[code].value != Dictionary::kNone;
  }
  // REQUIRES: it has the code
  static void AddEntries(Dictionary* dictionary, uint32_t code, uint32_t entries);

 private:
  struct SavedValue;
  static bool ReadValue(ImageReader* reader, const Dictionary& dictionary, SavedValue* value);
  static bool AddValue(ImageReader* reader, const SavedValue& value, Dictionary* dictionary);
  static bool AddCode(uint32_t number, const SymbolBlock& block, uint32_t id,
                      Dictionary* dictionary);
  static void LinkFreeCodes(Dictionary* dictionary);
  static bool Take(SymbolBlocks* blocks, const SymbolBlock& block);
};

}  // namespace kbf
