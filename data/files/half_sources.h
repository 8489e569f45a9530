// HalfSources: the words in the names of files, folders and arrays that tell the training half from the evaluation
// half.
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nixie {

/// In any case of letters; where there are several, the first is taken.
using HalfWords = std::span<const std::string_view>;
inline constexpr std::array<std::string_view, 2> kTrainingWords = {"train", "training"};
inline constexpr std::array<std::string_view, 7> kEvaluationWords = {"val",  "valid", "validation", "dev",
                                                                     "eval", "test",  "testing"};

/// The source of a half: a folder that holds a folder per class, a table, a file of arrays, or shards.
using HalfSource = std::vector<std::filesystem::path>;
struct HalfSources {
  HalfSource train, test = {};  ///< `test` is empty where there is none
  /// Whether they are read from this file or folder, or from shards in it.
  bool use(const std::filesystem::path& path) const;
};

std::string lower_case(std::string text);

/// Tells by name and type whether a half may be such a file, or a folder.
using HalfKind = std::function<bool(const std::filesystem::directory_entry&)>;
/// The entry of a folder whose name, without a suffix, is the first of these words that is there; of several the one of
/// the first kind. Empty where there is none. A link to nothing is found by its name: whoever opens it says so.
std::filesystem::path find_half(const std::filesystem::path& folder, HalfWords words,
                                const std::vector<HalfKind>& kinds);

/// `photos/train`, `shards/a.tar and 11 more`
std::string text_of(const HalfSource& half);

/// The sources of the halves, for notes of files left out: `train`, `val`; no test half is a share held out.
struct HalfNames {
  std::string train, test = {};
  /// `photos/test is left out: training reads train, evaluation val`
  std::string note(const std::string& left_out) const;
};
HalfNames names_of(const HalfSources& halves);

/// Notes all in a folder that is not hidden and for which `is_left_out` holds.
void note_left_out(const std::filesystem::path& folder, const HalfNames& names,
                   const std::function<bool(const std::filesystem::path&)>& is_left_out,
                   std::vector<std::string>& notes);
}  // namespace nixie
