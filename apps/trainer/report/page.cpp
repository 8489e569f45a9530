// No script and nothing from elsewhere.
#include "nixie/apps/trainer/report/page.h"

#include <fmt/format.h>

#include "nixie/apps/trainer/report/chart.h"
#include "nixie/apps/trainer/report/style.h"

namespace nixie {

std::string html_page(const std::string& title, const std::string& body, const std::string& head) {
  const std::string text = html_text(title);
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n{}<title>{}</title>\n"
      "<style>{}</style>\n</head>\n<body>\n<h1>{}</h1>\n{}</body>\n</html>\n",
      head, text, kPageStyle, text, body);
}

}  // namespace nixie
