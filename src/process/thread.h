// Starts threads that can allocate memory from their first line on, and tells the scheduler what a
// thread that serves clients needs.
#pragma once

#include <functional>
#include <thread>

namespace server {

// Runs `body` in a new thread. Returns after the allocator has set up its data for the thread:
// jemalloc cannot do that when memory has run out, and would crash. Throws std::system_error.
std::thread StartThread(std::function<void()> body);

// Asks for time slices of 0.1 ms for this thread: it gets a processor sooner when a request
// arrives, and gives it up sooner while it is busy with many. Its share of the processors stays. No
// effect before Linux 6.12, under another scheduling policy, or where it is forbidden.
void RequestShortTimeSlices() noexcept;

}  // namespace server
