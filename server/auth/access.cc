#include "server/auth/access.h"

#include <arpa/inet.h>
#include <grpc/grpc_security_constants.h>
#include <openssl/crypto.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "google/protobuf/util/time_util.h"
#include "kernels/text/cat.h"
#include "server/auth/file_stamp.h"

namespace assay::server {
namespace {

constexpr std::string_view kBearer = "Bearer ";
// Of a name that a caller chose, in the log.
constexpr std::size_t kMostTargetBytes = 128;
// Before the address of a caller that shows nothing else.
constexpr std::string_view kAddress = "address ";
// How gRPC begins the name of an address.
constexpr std::string_view kIpv4 = "ipv4:";
constexpr std::string_view kIpv6 = "ipv6:";
// How gRPC names a connection that was accepted for it.
constexpr std::string_view kDescriptor = "fd:";

// Any program of this machine has all addresses of 127.0.0.0/8.
std::string Ipv4Client(std::string_view address) {
  return address.starts_with("127.") ? "127.0.0.0/8" : std::string(address);
}

// Of "[2001:db8::1]", with or without a zone behind '%'. The brackets may be escaped.
std::string Ipv6Client(std::string_view address) {
  std::string text = absl::StrReplaceAll(absl::string_view(address.data(), address.size()),
                                         {{"%5B", ""}, {"%5D", ""}, {"[", ""}, {"]", ""}});
  text.resize(std::min(text.size(), text.find('%')));
  in6_addr bytes{};
  if (inet_pton(AF_INET6, text.c_str(), &bytes) != 1) return Cat(kIpv6, address);
  std::array<char, INET6_ADDRSTRLEN> shown{};
  if (IN6_IS_ADDR_V4MAPPED(&bytes)) {
    inet_ntop(AF_INET, &bytes.s6_addr[12], shown.data(), shown.size());
    return Cat(kIpv4, Ipv4Client(shown.data()));
  }
  if (IN6_IS_ADDR_LOOPBACK(&bytes)) return Cat(kIpv6, "::1");
  std::fill(bytes.s6_addr + 8, bytes.s6_addr + 16, std::uint8_t{0});  // of the machine's choice
  inet_ntop(AF_INET6, &bytes, shown.data(), shown.size());
  return Cat(kIpv6, shown.data(), "/64");
}

// The scheme of the header has no case (RFC 7235).
bool IsBearer(std::string_view header) {
  return header.size() > kBearer.size() &&
         std::equal(kBearer.begin(), kBearer.end(), header.begin(), [](char a, char b) {
           return std::tolower(static_cast<unsigned char>(a)) ==
                  std::tolower(static_cast<unsigned char>(b));
         });
}

Role RoleWithoutFile(const Shown& shown) {
  if (shown.peer.starts_with(kDescriptor)) return Role::kNone;  // of nobody that was taken note of
  return !shown.encrypted && shown.loopback ? Role::kAdmin : Role::kOperator;
}

std::string NameOf(const Shown& shown) {
  if (!shown.names.empty()) return Cat("certificate ", shown.names.front());
  return shown.user ? Cat(kUidPrefix, *shown.user) : Cat(kAddress, shown.peer);
}

}  // namespace

bool Access::TakeConnection(int descriptor, uid_t user) {
  if (RoleOfUser(user) == Role::kNone) {
    LogRefusal("connect", Cat(kUidPrefix, user),
               "the file of --roles-file does not name this user");
    return false;
  }
  const std::lock_guard lock(mutex_);
  users_[descriptor] = user;
  return true;
}

Role Access::RoleOfUser(uid_t user) {
  if (user == geteuid() || user == 0) return Role::kAdmin;
  const std::shared_ptr<const Roles> roles = Current();
  const auto found = roles->clients.find(Cat(kUidPrefix, user));
  return found == roles->clients.end() ? Role::kNone : found->second;
}

Shown Access::ShownBy(const grpc::ServerContextBase& context) {
  Shown shown;
  shown.peer = context.peer();
  int descriptor = -1;
  if (shown.peer.starts_with(kDescriptor) &&
      absl::SimpleAtoi(shown.peer.substr(kDescriptor.size()), &descriptor)) {
    const std::lock_guard lock(mutex_);
    if (const auto found = users_.find(descriptor); found != users_.end()) {
      shown.user = found->second;
    }
  }
  shown.loopback = shown.peer.starts_with("ipv4:127.") || shown.peer.starts_with("ipv6:[::1]") ||
                   shown.peer.starts_with("ipv6:%5B::1%5D");
  const std::shared_ptr<const grpc::AuthContext> auth = context.auth_context();
  if (auth != nullptr) {
    for (const grpc::string_ref& type :
         auth->FindPropertyValues(GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME)) {
      shown.encrypted = type == GRPC_SSL_TRANSPORT_SECURITY_TYPE;
    }
    for (const char* property : {GRPC_X509_CN_PROPERTY_NAME, GRPC_X509_SAN_PROPERTY_NAME}) {
      for (const grpc::string_ref& name : auth->FindPropertyValues(property)) {
        if (!name.empty()) shown.names.emplace_back(name.data(), name.size());
      }
    }
  }
  if (auth != nullptr && is_void_) {
    for (const grpc::string_ref& pem : auth->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME)) {
      shown.is_void = shown.is_void || is_void_(std::string(pem.data(), pem.size()));
    }
  }
  const auto [begin, end] = context.client_metadata().equal_range("authorization");
  for (auto header = begin; header != end; ++header) {
    shown.token = BearerToken({header->second.data(), header->second.size()});
  }
  return shown;
}

Access::Access(std::string path, Roles roles, Clock clock)
    : path_(std::move(path)),
      clock_(std::move(clock)),
      roles_(std::make_shared<const Roles>(std::move(roles))) {}

absl::StatusOr<std::unique_ptr<Access>> Access::Open(std::string roles_file, Clock clock) {
  std::string stamp = FileStamp({roles_file});
  Roles roles;
  if (!roles_file.empty()) {
    absl::StatusOr<Roles> read = ReadRolesFile(roles_file);
    if (!read.ok()) return read.status();
    roles = *std::move(read);
  }
  std::unique_ptr<Access> access(
      new Access(std::move(roles_file), std::move(roles), std::move(clock)));
  access->stamp_ = std::move(stamp);
  access->looked_ = access->clock_();
  return access;
}

void Access::LookNow() {
  {
    const std::lock_guard lock(mutex_);
    looked_ = {};
    refused_stamp_.clear();
  }
  Current();
}

std::shared_ptr<const Roles> Access::Current() {
  const std::lock_guard lock(mutex_);
  const auto now = clock_();
  if (path_.empty() || now - looked_ < std::chrono::seconds(1)) return roles_;
  looked_ = now;
  std::string stamp = FileStamp({path_});
  if (stamp == stamp_) {
    refused_.clear();
    return roles_;
  }
  absl::StatusOr<Roles> read = ReadRolesFile(path_);
  refused_ = std::string(read.status().message());
  if (read.ok()) {
    stamp_ = std::move(stamp);
    roles_ = std::make_shared<const Roles>(*std::move(read));
    Log(LogLevel::kInfo, "roles.reloaded", {{"file", path_}});
  } else if (stamp != refused_stamp_) {  // the same file is tried again, and told of once
    refused_stamp_ = std::move(stamp);
    Log(LogLevel::kError, "roles.reload_refused",
        {{"reason", refused_}, {"using", "the roles before"}});
  }
  return roles_;
}

std::string Access::Refused() {
  Current();
  const std::lock_guard lock(mutex_);
  return refused_;
}

absl::StatusOr<Caller> Access::Identify(const Shown& shown) {
  if (shown.is_void) {
    return absl::UnauthenticatedError(
        Cat(NameOf(shown), " is revoked or has expired, or its issuer is not in --tls-client-ca"));
  }
  Caller caller{NameOf(shown), shown.user ? RoleOfUser(*shown.user) : Role::kNone, shown.peer};
  if (path_.empty()) {
    if (!shown.user) caller.role = RoleWithoutFile(shown);
    return caller;
  }
  const std::shared_ptr<const Roles> roles = Current();
  for (const std::string& name : shown.names) {
    const auto found = roles->clients.find(name);
    if (name.starts_with(kUidPrefix)) continue;  // no certificate makes a user
    if (found == roles->clients.end() || found->second <= caller.role) continue;
    caller.name = Cat("certificate ", name);
    caller.role = found->second;
  }
  if (!shown.token) return caller;
  if (shown.token->empty()) {
    return absl::UnauthenticatedError("the header authorization must be \"Bearer TOKEN\"");
  }
  // Every hash is compared to its end, so that the time says nothing.
  const Sha256 shown_hash = Sha256Of(*shown.token);
  const TokenRole* bearer = nullptr;
  for (const TokenRole& token : roles->tokens) {
    if (CRYPTO_memcmp(token.sha256.data(), shown_hash.data(), shown_hash.size()) == 0) {
      bearer = &token;
    }
  }
  if (bearer == nullptr) {
    return absl::UnauthenticatedError(
        "this token is not known here: the file of --roles-file has no such sha256");
  }
  if (bearer->role > caller.role) {
    caller.name = Cat("token ", bearer->name);
    caller.role = bearer->role;
  }
  return caller;
}

absl::StatusOr<Caller> Access::Admit(const Shown& shown, std::string_view call) {
  absl::StatusOr<Caller> caller = Identify(shown);
  absl::Status refused = caller.status();
  if (caller.ok()) {
    const Needed* needed = FindNeeded(call);
    if (needed != nullptr && caller->role >= needed->role) return caller;
    refused = absl::PermissionDeniedError(
        needed == nullptr ? Cat(call, " is not open to anybody")
                          : Cat(call, " needs the role ", Word(needed->role), "; ", caller->name,
                                " has ", Word(caller->role)));
  }
  LogRefusal(call, shown.peer, std::string(refused.message()));
  return refused;
}

void Access::LogRefusal(std::string_view call, std::string_view peer, std::string_view reason) {
  std::int64_t unlogged = 0;
  if (!refusals_.Admit(&unlogged)) return;
  Log(LogLevel::kWarn, "access.refused",
      {{"call", call}, {"peer", peer}, {"reason", reason}, {"unlogged_before", unlogged}});
}

std::string BearerToken(std::string_view header) {
  return IsBearer(header) ? std::string(header.substr(kBearer.size())) : "";
}

std::string ClientAt(std::string_view peer) {
  const std::size_t colon = peer.rfind(':');
  const bool port = colon != std::string_view::npos && colon + 1 < peer.size() &&
                    peer.find_first_not_of("0123456789", colon + 1) == std::string_view::npos;
  const std::string_view address = port ? peer.substr(0, colon) : peer;
  if (address.starts_with(kIpv4)) {
    return Cat(kAddress, kIpv4, Ipv4Client(address.substr(kIpv4.size())));
  }
  if (address.starts_with(kIpv6)) return Cat(kAddress, Ipv6Client(address.substr(kIpv6.size())));
  return Cat(kAddress, address);
}

std::string ClientOf(const Caller& caller) {
  return caller.name.starts_with(kAddress) ? ClientAt(caller.peer) : caller.name;
}

namespace {

// A text of an event. A certificate may hold any bytes as a name, and what is cut may end within a
// character: such bytes stand as \xNN, so that the event is text.
std::string Plain(std::string_view text) {
  const bool ascii = std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 && static_cast<unsigned char>(c) < 0x7f;
  });
  return ascii ? std::string(text) : absl::CHexEscape({text.data(), text.size()});
}

}  // namespace

v1::AuditEvent Audit(const Caller& caller, std::string_view call, std::string_view target,
                     std::string_view result) {
  v1::AuditEvent event;
  *event.mutable_time() = google::protobuf::util::TimeUtil::GetCurrentTime();
  event.set_who(Plain(caller.name));
  event.set_role(std::string(Word(caller.role)));
  event.set_peer(caller.peer);
  event.set_call(std::string(call));
  event.set_target(Plain(target.substr(0, kMostTargetBytes)));
  event.set_result(std::string(result));
  Log(LogLevel::kInfo, "audit",
      {{"who", caller.name},
       {"role", event.role()},
       {"peer", caller.peer},
       {"call", call},
       {"target", target.substr(0, kMostTargetBytes)},
       {"result", result}});
  return event;
}

}  // namespace assay::server
