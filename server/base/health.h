// Health: the daemon's health as one bit for load balancers, and the reasons for people.
#ifndef ASSAY_SERVER_BASE_HEALTH_H_
#define ASSAY_SERVER_BASE_HEALTH_H_

#include <map>
#include <string>
#include <vector>

namespace assay::server {

struct Health {
  // Whether it takes requests. Nothing else below changes that: a daemon with a device in
  // quarantine answers for the others.
  bool serving = false;
  std::string status;  // "starting", "serving", "draining"
  // What a person should look at, a sentence each: a device in quarantine, a certificate that
  // expires soon, a store that is full.
  std::vector<std::string> warnings;
  std::map<std::string, std::string> devices;  // id -> "READY", "BUSY", "QUARANTINED", …
};

// {"status":"serving","serving":true,"warnings":[…],"devices":{"cpu:0":"READY"}} and a line feed.
std::string HealthJson(const Health& health);

}  // namespace assay::server

#endif  // ASSAY_SERVER_BASE_HEALTH_H_
