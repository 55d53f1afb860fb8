// WithStatus and WithResult stand at the border of the library: exceptions of the standard library
// become statuses there, as <kbf/error.h> promises.
#pragma once

#include <kbf/error.h>

#include <exception>
#include <new>
#include <stdexcept>
#include <utility>

namespace kbf {

// std::length_error is a container that was asked for more than any memory has; the only
// std::runtime_error that we throw is HashSecret::Random's.
inline Status StatusOfCurrentException() noexcept {
  try {
    throw;
  } catch (const std::runtime_error&) {
    return Status::kSystem;
  } catch (...) {
    return Status::kNoMemory;
  }
}

template <class Call>
Status WithStatus(Call call) noexcept {
  try {
    return call();
  } catch (...) {
    return StatusOfCurrentException();
  }
}

template <class T, class Call>
Result<T> WithResult(Call call) {
  try {
    return call();
  } catch (...) {
    const Status status = StatusOfCurrentException();
    return {status, StatusMessage(status)};
  }
}

}  // namespace kbf
