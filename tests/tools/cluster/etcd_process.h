// EtcdProcess is a real etcd of one member on free loopback ports, with its data in a temporary
// directory. It ends with the test, by its process id.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tools/cluster/etcd_client.h"

class EtcdProcess {
 public:
  // False: etcd is not installed. Says so once.
  static bool IsInstalled();

  EtcdProcess();
  ~EtcdProcess();
  EtcdProcess(const EtcdProcess&) = delete;
  EtcdProcess& operator=(const EtcdProcess&) = delete;

  cluster::Endpoint endpoint() const { return {"127.0.0.1", port_}; }
  void Kill();

 private:
  std::string directory_;
  uint16_t port_ = 0;
  pid_t pid_ = -1;
};
