// Starts threads that can allocate memory from their first line on.
#pragma once

#include <functional>
#include <thread>

namespace server {

// Runs `body` in a new thread. Returns after the allocator has set up its data for the thread:
// jemalloc cannot do that when memory has run out, and would crash. Throws std::system_error.
std::thread StartThread(std::function<void()> body);

}  // namespace server
