// What the process does about itself before it serves: background, limits, user, pid file.
//
// Promises:  each function does its one thing or throws a StartupError that says what to change.
// Requires:  one thread, and this order, because later steps lack what earlier ones use up:
//            OpenStandardStreams (bind sockets) Daemonize? RaiseFileLimit LockMemory?
//            ForbidNewPrivileges DropPrivileges EnableCoreDumps? WritePidFile? DropCapabilities
//            (event bases, threads, listen) ReportReady? … RemovePidFile?
//            Event bases come after Daemonize because they do not survive a fork, and nor do
//            memory locks. Privileges are dropped before there are threads, because the kernel
//            keeps capabilities per thread.
#pragma once

#include <string>

namespace server {

// Opens /dev/null for each standard stream that the caller has closed, or a socket would get its
// number and what is written to the stream.
void OpenStandardStreams();

// Leaves the terminal: a child in a session of its own goes on. The caller's process waits until
// the child calls ReportReady and then exits with 0; it exits with 1 when the child ends before,
// so that who starts the server learns from the exit code whether it serves. With keep_directory
// (-r, so that core files have a place) the child stays where it is instead of in "/".
void Daemonize(bool keep_directory);
// Until here, errors go to the caller's standard error. From here on the streams are /dev/null,
// unless keep_streams (-v). Does nothing in a process that Daemonize has not made.
void ReportReady(bool keep_streams);

// Lets the process open what `connections` clients and `threads` workers need. Never lowers a
// limit.
void RaiseFileLimit(unsigned connections, unsigned threads);

// Keeps all memory, present and future, out of swap.
void LockMemory();

// No program that this process starts can have more privileges than it has, and no capability
// can come back. Before DropPrivileges, after which the bounding set can no longer be changed;
// where it cannot be changed anyway, it stays.
void ForbidNewPrivileges();

// Root becomes `user`, and refuses to stay root unless `user` says so. Others stay who they are,
// whatever `user` says, as memcached does.
void DropPrivileges(const std::string& user);

// Gives up all capabilities. Also for root, who then may do what the owner of root's files may.
void DropCapabilities();

// As large core files as the hard limit allows. After DropPrivileges, which forbids them.
void EnableCoreDumps();

// The file appears complete or not at all. Relative paths are relative to where Daemonize went.
void WritePidFile(const std::string& path);
// For the end; removes the file only while it holds this process's number. A file that is gone
// already, or that this user may not remove, is fine.
void RemovePidFile(const std::string& path) noexcept;

}  // namespace server
