// Lists what daemons answer, as aligned rows or as JSON. The listing commands use it.
#ifndef ASSAY_CLIENT_CLI_LISTING_H_
#define ASSAY_CLIENT_CLI_LISTING_H_

#include <functional>
#include <string>
#include <vector>

#include "client/cli/context.h"
#include "client/report/json.h"

namespace assay::client {

// Writes a heading and rows, each column as wide as its widest word. On a terminal of `width`
// columns (0: none) a remark, which is a row's last word and of several, keeps within it: in
// lines beneath one another, or below its row where there is no room beside it.
void PrintListing(std::ostream& out, const std::vector<std::string>& heading,
                  const std::vector<std::vector<std::string>>& rows, int width = 0);

// What a listing command makes of one daemon's answer.
struct Listed {
  std::vector<std::vector<std::string>> rows;  // for the table
  std::vector<Json> items;                     // for json and jsonl
};

// Asks every daemon and writes all answers as one listing: table, json
// ({"<key>": [...]}) or jsonl. With several daemons each row begins with its
// target, and each item has a "target".
ExitCode List(const Context& context, const std::string& key, std::vector<std::string> heading,
              const std::function<grpc::Status(Connection&, Listed&)>& ask);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_CLI_LISTING_H_
