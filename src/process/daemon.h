// Sets up the process before it serves: background, limits, user, privileges, pid file.
//
// Promises:  each function does its one thing or throws a StartupError that says what to change.
// Requires:  one thread, and this order, because later steps lack privileges or descriptors that
//            earlier ones need:
//            OpenStandardStreams (bind sockets) Daemonize? RaiseFileLimit LockMemory?
//            ForbidNewPrivileges DropPrivileges EnableCoreDumps? WritePidFile? DropCapabilities
//            (event bases, threads, listen) ReportReady? … RemovePidFile?
//            Event bases come after Daemonize because they do not survive a fork, and nor do
//            memory locks. Privileges are dropped before there are threads, because the kernel
//            keeps capabilities per thread.
#pragma once

#include <string>

namespace server {

// Opens /dev/null for each standard stream that the caller has closed. Otherwise a socket could get
// its number, and what is written to the stream would be sent to a client.
void OpenStandardStreams();

// Continues in a child process with a session of its own. The calling process waits until the child
// calls ReportReady and then exits with 0; if the child ends before, it exits with 1. So the exit
// code tells whether the server serves. The child changes to "/", unless keep_directory (-r: core
// files are written to the current directory).
void Daemonize(bool keep_directory);
// Errors before this call go to the caller's standard error. From now on the standard streams are
// /dev/null, unless keep_streams (-v). Does nothing in a process that Daemonize has not started.
void ReportReady(bool keep_streams);

// Lets the process open what `connections` clients and `threads` workers need. Never lowers a
// limit.
void RaiseFileLimit(unsigned connections, unsigned threads);

// Keeps all memory, present and future, out of swap.
void LockMemory();

// From now on neither this process nor a program that it starts can gain privileges or
// capabilities. Must come before DropPrivileges, after which the bounding set can no longer be
// changed. If it cannot be changed at all, it stays as it is.
void ForbidNewPrivileges();

// Root becomes `user`; without `user`, root is refused. A process that is not root keeps its user,
// and `user` is ignored, as in memcached.
void DropPrivileges(const std::string& user);

// Gives up all capabilities. Root then has only the rights of the owner of root's files.
void DropCapabilities();

// Allows core files as large as the hard limit. Must come after DropPrivileges, which forbids them.
void EnableCoreDumps();

// The file appears complete or not at all. Relative paths are relative to where Daemonize went.
void WritePidFile(const std::string& path);
// Removes the file if it still holds this process's number. A file that is missing, or that this
// user may not remove, is no error.
void RemovePidFile(const std::string& path) noexcept;

}  // namespace server
