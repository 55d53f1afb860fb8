// What the process does about itself before it serves: background, limits, user, pid file.
//
// Promises:  each function does its one thing or throws a StartupError that says what to change.
// Requires:  one thread, and this order, because later steps lack what earlier ones use up:
//            (bind sockets) Daemonize? RaiseFileLimit LockMemory? DropPrivileges EnableCoreDumps?
//            WritePidFile? (event bases, threads) … RemovePidFile?
//            Sockets come first so that a taken port is reported to the caller's terminal; event
//            bases come after because they do not survive a fork, and nor do memory locks.
#pragma once

#include <string>

namespace server {

// Leaves the terminal: the caller's process exits, a child in a session of its own goes on. With
// keep_directory (-r, so that core files have a place) it stays where it is instead of in "/";
// with keep_streams (-v) it goes on writing where it wrote, instead of to /dev/null.
void Daemonize(bool keep_directory, bool keep_streams);

// Lets the process open what `connections` clients and `threads` workers need. Never lowers a
// limit.
void RaiseFileLimit(unsigned connections, unsigned threads);

// Keeps all memory, present and future, out of swap.
void LockMemory();

// Root becomes `user`, and refuses to stay root unless `user` says so. Others stay who they are,
// whatever `user` says, as memcached does.
void DropPrivileges(const std::string& user);

// As large core files as the hard limit allows. After DropPrivileges, which forbids them.
void EnableCoreDumps();

// The file appears complete or not at all. Relative paths are relative to where Daemonize went.
void WritePidFile(const std::string& path);
// For the end; a file that is gone already is fine.
void RemovePidFile(const std::string& path) noexcept;

}  // namespace server
