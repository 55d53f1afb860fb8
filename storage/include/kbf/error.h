// Status and Result are how every function of <kbf/*.h> reports a failure.
//
// Promises:  no function of the library throws. What can fail returns a Status; what makes an
//            object returns a Result, which holds the object, or a Status and one sentence that
//            says what to change. Running out of memory is a Status too.
// Why:       the library also has a C interface and is used where exceptions are switched off, and
//            most of these outcomes ("not found", "full") are expected and need no unwinding.
// Stability: unstable until version 1.0: names, numbers and layouts may change with any release.
//            The C++ interface is in the inline namespace v0, so a program that was compiled for
//            another version fails when it is linked, not when it runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace kbf {
inline namespace v0 {

enum class [[nodiscard]] Status : uint8_t{
    kOk = 0,
    kNotFound = 1,       // the key is not stored
    kUndecodable = 2,    // the key may be stored, but its value cannot be told
    kExists = 3,         // Store::Add: the key is stored already
    kFull = 4,           // no room for another key; nothing was changed
    kTooManyValues = 5,  // no room for another distinct value; nothing was changed
    kTooLarge = 6,       // the value, or key and value together, are longer than the limit
    kBadArgument = 7,    // a null pointer, a number out of range, a key that is not allowed
    kUnlike = 8,         // Join: the maps are not of one family, or not of one size
    kCannotHalve = 9,    // Compress: the map was halved as often as it can be
    kNoMemory = 10,
    kSystem = 11,  // the operating system gave no random bytes
};

// A sentence in English without a full stop; never null.
const char* StatusMessage(Status status);

// A T, or why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: converts, so that functions return a T
  // REQUIRES: status != Status::kOk
  Result(Status status, std::string message) : status_(status), message_(std::move(message)) {}

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  Status status() const { return status_; }
  // What to change; empty if ok().
  const std::string& message() const { return message_; }

  // REQUIRES: ok()
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  // The same with a check, as in std::optional: throws std::bad_optional_access where there is no
  // value. This is the only throw in these headers, and it happens in the caller's code.
  T& value() & { return value_.value(); }
  const T& value() const& { return value_.value(); }
  T&& value() && { return std::move(value_).value(); }

 private:
  std::optional<T> value_;
  Status status_ = Status::kOk;
  std::string message_;
};

}  // namespace v0
}  // namespace kbf
