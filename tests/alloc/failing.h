// Makes allocations fail, from a chosen one on: operator new in all its forms, what the server and
// the store ask malloc, calloc, realloc, aligned_alloc and mmap for, and what libevent allocates.
//
// Requires:  one thread; a program that is linked with --wrap for the C functions (see Makefile).
//            InstallForLibevent before libevent is used.
#pragma once

#include <cstdint>

namespace failing {

void InstallForLibevent();

// Allocations are counted, and fail, only between these two. `first` counts from 1; 0: none fails.
void Arm();
void Disarm();
// Sets the count back to 0. `count` allocations from `first` on fail.
void Choose(uint64_t first, uint64_t count);
// The ones behind do not fail any more.
void Stop();

uint64_t calls();     // allocations that were counted
uint64_t failures();  // of them, those that failed

}  // namespace failing
