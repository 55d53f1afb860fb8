#include "storage/image/store_image.h"

#include <new>
#include <utility>

#include "storage/engine.h"
#include "storage/slab.h"

namespace kbf {

namespace {

constexpr uint16_t kStoreVersion = 1;
// Whoever remembers a CAS number that was given after an image was made must not meet it again.
constexpr uint64_t kOutdatedCasStep = uint64_t{1} << 32;
constexpr uint64_t kCasMax = uint64_t{1} << 62;
// The clock of a store that ran for 68 years.
constexpr uint32_t kStoreSecondsMax = uint32_t{1} << 31;

constexpr std::string_view kOutdatedReason =
    "the server that wrote it was not stopped in order, or has gone on since";

}  // namespace

std::optional<ImageSum> ImageDigestOf(const Engine& engine) {
  const std::string kind = engine.ImageKind();
  if (kind.empty()) return std::nullopt;
  return ImageSumOf(std::as_bytes(std::span(kind)));
}

// What saving and loading need to see of a store.
struct StoreImage {
  static const HashSecret& SecretOf(const Store& store) { return store.secret_; }
  static std::atomic<uint64_t>& NextCas(Store& store) { return store.next_cas_; }
  static Slab& SlabAt(Store& store, unsigned index) { return *store.slabs_[index]; }
  // Lets slabs give way until all of them keep to the store's limit, or have nothing left to give.
  static void FitIn(Store* store, uint32_t now) {
    for (uint64_t before = UINT64_MAX; store->IsOverLimit();) {
      const uint64_t bytes = store->memory_->bytes();
      if (bytes >= before) break;
      before = bytes;
      store->MakeOthersGiveWay(now);
    }
  }
};

// ---- saving -------------------------------------------------------------------------------------

StoreSaver::StoreSaver(Store& store, ByteSink& sink, ImageMark mark, const ImageMoment& moment)
    : store_(store),
      writer_(sink, {mark, ImageDigestOf(store.engine()).value_or(ImageSum{}),
                     StoreImage::SecretOf(store).bytes()}) {
  writer_.Begin(static_cast<uint16_t>(ImageSection::kStore), kStoreVersion);
  writer_.Put(uint32_t{store.num_slabs()});
  writer_.Put(store.config().filter_keys);
  writer_.Put(moment.store_s);
  writer_.Put(moment.unix_ms);
  writer_.Put(moment.boot_ms);
  writer_.Put(std::span<const std::byte>(moment.boot));
  writer_.End();
}

bool StoreSaver::Step(uint32_t now) {
  if (!writer_.ok()) return false;
  if (slab_ == store_.num_slabs()) {
    Finish();
    return false;
  }
  if (saver_ == nullptr) {
    saver_ = std::make_unique<SlabSaver>(StoreImage::SlabAt(store_, slab_), slab_);
  }
  if (saver_->Step(&writer_, now)) return true;
  counts_.items += saver_->counts().items;
  counts_.keys += saver_->counts().keys;
  saver_.reset();
  ++slab_;
  return true;
}

void StoreSaver::Finish() {
  writer_.Begin(static_cast<uint16_t>(ImageSection::kStoreEnd), kStoreVersion);
  writer_.Put(StoreImage::NextCas(store_).load(std::memory_order_relaxed));
  writer_.End();
  (void)writer_.Finish();
}

// ---- loading ------------------------------------------------------------------------------------

namespace {

// The section that the reader is in must be this one.
bool IsIn(ImageReader* reader, ImageSection section, uint16_t version) {
  if (reader->type() != static_cast<uint16_t>(section)) {
    return reader->Refuse(ImageStatus::kImpossible);
  }
  return reader->version() == version || reader->Refuse(ImageStatus::kOtherFormat);
}

bool Enter(ImageReader* reader, ImageSection section, uint16_t version) {
  if (!reader->Next()) return reader->Refuse(ImageStatus::kImpossible);
  return IsIn(reader, section, version);
}

struct StoreSection {
  uint32_t num_slabs = 0;
  uint64_t filter_keys = 0;
  ImageMoment moment;
};

bool ReadStoreSection(ImageReader* reader, StoreSection* section) {
  ImageMoment& moment = section->moment;
  if (!Enter(reader, ImageSection::kStore, kStoreVersion) || !reader->Get(&section->num_slabs) ||
      !reader->Get(&section->filter_keys) || !reader->Get(&moment.store_s) ||
      !reader->Get(&moment.unix_ms) || !reader->Get(&moment.boot_ms) ||
      !reader->Get(std::span<std::byte>(moment.boot))) {
    return false;
  }
  return (section->num_slabs > 0 && section->filter_keys > 0 &&
          moment.store_s <= kStoreSecondsMax) ||
         reader->Refuse(ImageStatus::kImpossible);
}

// The rest of the image, and that nothing follows it.
bool ReadEnd(ImageReader* reader, ByteSource& source, uint64_t* next_cas) {
  if (!Enter(reader, ImageSection::kStoreEnd, kStoreVersion) || !reader->Get(next_cas)) {
    return false;
  }
  if (reader->Next() || *next_cas > kCasMax) return reader->Refuse(ImageStatus::kImpossible);
  std::byte more;
  if (source.Read(std::span(&more, 1)) != 0) return reader->Refuse(ImageStatus::kImpossible);
  return reader->status() == ImageStatus::kOk;
}

bool LoadSlabs(ImageReader* reader, uint32_t now, Store* store,
               const std::function<void()>& progress, ImageCounts* counts) {
  for (unsigned i = 0; i < store->num_slabs(); ++i) {
    if (!Enter(reader, ImageSection::kItems, kItemsVersion) ||
        !LoadSlab(reader, i, now, &StoreImage::SlabAt(*store, i), counts)) {
      return false;
    }
    StoreImage::FitIn(store, now);
    progress();
  }
  return true;
}

}  // namespace

StoreLoad LoadStore(ByteSource& source, const StoreConfig& config, bool accept_outdated,
                    const std::function<std::optional<uint32_t>(const ImageMoment&)>& now_at,
                    const std::function<void()>& progress) try {
  ImageReader reader(source);
  const auto refused = [&](std::string_view reason) {
    return StoreLoad{nullptr, std::string(reason), false, {}, reader.bytes_read()};
  };
  ImageHead head;
  StoreSection section;
  if (!reader.ReadHead(&head)) return refused(ReasonOf(reader.status()));
  if (head.mark != ImageMark::kCurrent && !accept_outdated) {
    return {nullptr, std::string(kOutdatedReason), true, {}, reader.bytes_read()};
  }
  if (!ReadStoreSection(&reader, &section)) return refused(ReasonOf(reader.status()));
  const std::optional<uint32_t> now = now_at(section.moment);
  if (!now) return refused("the system's clock went back since");

  StoreConfig shape = config;
  shape.num_slabs = section.num_slabs;
  shape.filter_keys = section.filter_keys;
  Store::CreateOutcome made = Store::Create(shape, HashSecret(head.secret));
  if (made.store == nullptr) return refused("it does not fit: " + made.error);
  if (ImageDigestOf(made.store->engine()) != head.digest) {
    return refused("it is of another configuration");
  }
  ImageCounts counts;
  uint64_t next_cas = 0;
  if (!LoadSlabs(&reader, *now, made.store.get(), progress, &counts) ||
      !ReadEnd(&reader, source, &next_cas)) {
    return refused(ReasonOf(reader.status()));
  }
  if (head.mark != ImageMark::kCurrent) next_cas += kOutdatedCasStep;
  StoreImage::NextCas(*made.store).store(next_cas, std::memory_order_relaxed);
  return {std::move(made.store), {}, false, counts, reader.bytes_read()};
} catch (const std::bad_alloc&) {
  return {nullptr, std::string(ReasonOf(ImageStatus::kNoMemory)), false, {}, 0};
}

}  // namespace kbf
