// The parts of the statistics, one function for each sub-command that answers with names and
// values. stats.h is the header to use; docs/stats.md lists what the names mean.
#pragma once

#include <cstdint>

#include "src/stats/server_view.h"
#include "src/stats/sink.h"

namespace server {

// Keys in the front, and entries of the chain that no tombstone hides. A key that was written
// while the chain still holds an older value of it counts twice until it leaves the front.
uint64_t CurrentItems(const kbf::SlabUsage& usage);

// `stats`: names, order and number formats of memcached 1.6.18.
void WriteGeneral(const ServerView& server, StatsSink* out);
// `stats settings`, likewise. Options without effect are shown as they were given.
void WriteSettings(const ServerView& server, StatsSink* out);

// `stats items`, `stats slabs`. memcached's classes are sizes of items; here a class is a slab,
// one part of the keys by hash, and from 64 slabs on several of them: ids end at kClassesMax.
// Classes without items are not shown, as in memcached. A page is a slab, a chunk is an item, and
// its size the mean of the class, values of the chain not included: the slabs share those.
inline constexpr unsigned kClassesMax = 32;
// Slab i is of class i / SlabsPerClass + 1.
unsigned SlabsPerClass(const kbf::Store& store);
void WriteItems(const ServerView& server, StatsSink* out);
void WriteSlabs(const ServerView& server, StatsSink* out);

// `stats conns`: the sockets in order of their descriptors.
void WriteConnections(const ServerView& server, StatsSink* out);

// `stats kbf`, `stats errors`: ours.
void WriteKbf(const ServerView& server, StatsSink* out);
void WriteErrors(const ServerView& server, StatsSink* out);

}  // namespace server
