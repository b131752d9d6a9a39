// Reads what a caller of the metrics port shows of itself: certificate, bearer token, address.
#ifndef ASSAY_SERVER_AUTH_HTTP_CALLER_H_
#define ASSAY_SERVER_AUTH_HTTP_CALLER_H_

#include <openssl/ssl.h>

#include <string>

#include "server/auth/access.h"

namespace assay::server {

// `connection` is null without TLS. `authorization` is the header of that name, empty: there is
// none. The certificate was checked in the handshake, so its names can be believed.
Shown ShownOverHttp(const SSL* connection, const std::string& address, int port,
                    const std::string& authorization);

}  // namespace assay::server

#endif  // ASSAY_SERVER_AUTH_HTTP_CALLER_H_
