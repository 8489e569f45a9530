// All texts are written beside their places, or without a name, before the first takes its place.
#include "nixie/apps/trainer/record/replacements.h"

#include <memory>
#include <span>
#include <utility>

#include "nixie/models/io/durable_file.h"

namespace nixie {

void Replacements::write(const FilePlace& place, std::string text) { changes_.push_back({place, std::move(text)}); }

void Replacements::link(const FilePlace& file, const FilePlace& place) {
  changes_.push_back({.place = place, .file = file});
}

void Replacements::remove(const FilePlace& place) { changes_.push_back({place}); }

void Replacements::make() const {
  for (const Change& change : changes_) check_changeable(change.place);
  if (!changes_.empty()) remove_stale_temporaries(changes_[0].place.folder());  // their room may be needed
  std::vector<std::unique_ptr<PendingFile>> written;
  for (const auto& [place, text, file] : changes_) {
    written.push_back(text ? std::make_unique<PendingFile>(place, static_cast<std::int64_t>(text->size())) : nullptr);
    if (text) written.back()->write(std::as_bytes(std::span(*text))), written.back()->sync();
  }
  for (std::size_t i = 0; i < changes_.size(); ++i)
    if (written[i])
      written[i]->publish();
    else if (changes_[i].file)
      link_durably(*changes_[i].file, changes_[i].place);
    else
      remove_file(changes_[i].place);
}

}  // namespace nixie
