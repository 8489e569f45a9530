// Opens arrays as training and test samples, channels first; splits off a test half if the file has none.
#include "nixie/data/arrays.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "nixie/core/base/fields.h"
#include "nixie/core/files/open_to_read.h"
#include "nixie/data/draws.h"
#include "nixie/data/files/array_samples.h"
#include "nixie/data/files/array_source.h"
#include "nixie/data/files/half_sources.h"
#include "nixie/data/files/mask_labels.h"
#include "nixie/data/files/npy_file.h"
#include "nixie/data/files/table_file.h"
#include "nixie/data/fingerprint.h"
#include "nixie/data/stored_images.h"

namespace nixie {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;

constexpr const char *kNotOneHot = " is no row with one 1 and else 0", *kSetNumbers = "set data.arrays.target=numbers";

[[noreturn]] void refuse(const Arrays& options, const std::string& what) {
  fail(Fault::data, options.path.string(), ": ", what);
}

/// A half as it was read.
struct ReadHalf {
  ArrayImages images = {};
  StoredTargets targets = {};
};

StoredTargets targets_of(const Arrays& options, const ArraySource& source, const std::string& name, const Shape& image,
                         std::int64_t samples) {
  const NumberArray array = source.array(name);
  const auto refuse_array = [&](const std::string& what) {
    fail(Fault::data, source.path().string(), ": ", name, what);
  };
  const ArrayPlaces place = source.places(name);
  const auto refuse_element = [&](std::size_t i, const std::string& what) {
    fail(Fault::data, place(index_of(array.shape, i)), " has the target ", element_text(array, i), ", ", what);
  };
  std::vector<std::int64_t> sizes = array.shape;
  if (sizes.empty() || sizes[0] != samples)
    refuse_array(fmt::format(" has {} targets for {} images; the arrays do not belong together",
                             sizes.empty() ? 0 : sizes[0], samples));
  if (array.bytes.empty()) refuse_array(fmt::format(" has the shape [{}], so no target", fmt::join(sizes, ", ")));
  if (sizes.size() == 2 && sizes[1] == 1) sizes.pop_back();
  if (sizes.size() == 4 && sizes[1] == 1) sizes.erase(sizes.begin() + 1);  // [N, 1, H, W]
  const bool is_dense = sizes.size() == 3 && sizes[1] == image[1] && sizes[2] == image[2];
  const auto odd_row = sizes.size() == 2 ? first_row_not_one_hot(array) : std::nullopt;
  const bool is_one_hot = sizes.size() == 2 && !odd_row;
  std::string kind = options.target;
  if (kind == "auto")
    kind = is_one_hot          ? "class"
           : !array.is_whole() ? "numbers"
           : sizes.size() == 1 ? "class"
           : is_dense          ? "mask"
                               : "numbers";
  StoredTargets targets{.place = [place](std::int64_t sample) { return place({sample}); }};
  if (kind == "numbers") {
    targets.values = Array::from(floats_of(array), Shape(sizes));
    const auto values = targets.values.data<float>();
    for (std::size_t i = 0; i < values.size(); ++i)
      if (!std::isfinite(values[i])) refuse_element(i, "expected numbers that are finite in f32; take that sample out");
    return targets;
  }
  if (kind == "class" && is_one_hot) {
    targets.labels = places_of_ones(array);
    return targets;
  }
  if (kind == "class" && odd_row)
    fail(Fault::data, place({*odd_row}), kNotOneHot, "; correct it, or for several labels of a sample ", kSetNumbers);
  const auto whole = integers_of(array);
  if (!whole) {
    const std::vector<float> values = floats_of(array);
    for (std::size_t i = 0; i < values.size(); ++i)
      if (!std::isfinite(values[i]) || values[i] != std::floor(values[i]))
        refuse_element(i, "expected whole numbers; for numbers "s + kSetNumbers);
    refuse_array(" has the type " + array.type + ", expected integers, as of astype(\"i8\"); for numbers " +
                 kSetNumbers);
  }
  if (kind == "class" ? sizes.size() != 1 : !is_dense)
    refuse_array(fmt::format(" has the shape [{}], expected {}", fmt::join(array.shape, ", "),
                             kind == "class"
                                 ? "[N] or rows with one 1 and else 0; for several labels of a sample "s + kSetNumbers
                                 : fmt::format("[N, {}, {}], as the images", image[1], image[2])));
  std::vector<std::int32_t> classes;
  for (std::size_t i = 0; i < whole->size(); ++i) {
    constexpr std::int64_t kMostClasses = 1'000'000;
    const std::int64_t label = (*whole)[i];
    const bool is_ignored = kind == "mask" && label == MaskLabels::kIgnored;
    if (!is_ignored && (label < 0 || label >= kMostClasses))
      refuse_element(i, fmt::format("expected classes from 0 on, below {}{}", kMostClasses,
                                    kind == "mask" ? "; pixels of no class are 255 or -100" : ""));
    classes.push_back(static_cast<std::int32_t>(label));
  }
  if (kind == "class")
    targets.labels = std::move(classes);
  else
    targets.values = Array::from(classes, Shape(sizes));
  return targets;
}

/// A half's arrays in their source.
struct HalfArrays {
  const ArraySource& source;
  ArrayPair names;
};

ReadHalf read_half(const Arrays& options, const HalfArrays& arrays) {
  constexpr double kGibibyte = 1 << 30;
  const auto& [source, names] = arrays;
  ReadHalf half{.images = images_of(source, names.images, options.layout, options.path, options.memory * kGibibyte)};
  half.targets = targets_of(options, source, names.targets, half.images.sample_shape, half.images.samples);
  return half;
}

template <class T>
std::vector<T> rows_of(std::span<const T> all, std::span<const std::size_t> indices, std::size_t stride) {
  std::vector<T> rows;
  for (const std::size_t i : indices) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(i * stride);
    rows.insert(rows.end(), begin, begin + static_cast<std::ptrdiff_t>(stride));
  }
  return rows;
}

/// `bytes [1, 28, 28], target: class`
std::string form_text(const ReadHalf& half) {
  return fmt::format("{} {}, target: {}", half.images.is_bytes() ? "bytes" : "floats", half.images.sample_shape,
                     to_string(half.targets.form()));
}

/// Where the rows of one half alone are one-hot: the row of the other that is not; else "".
std::string odd_row_text(const HalfArrays& train, const HalfArrays& test) {
  std::string text;
  std::int64_t columns = 0;
  for (const auto& [source, names] : {train, test}) {
    const NumberArray rows = source.array(names.targets);
    if (rows.shape.size() != 2 || rows.shape[1] < 2 || (columns > 0 && rows.shape[1] != columns)) return {};
    columns = rows.shape[1];
    if (const auto odd = first_row_not_one_hot(rows))
      text = source.places(names.targets)({*odd}) + kNotOneHot +
             ", as those of the other half are; correct it, or for numbers " + kSetNumbers;
  }
  return text;
}

/// The samples of these indices.
ReadHalf part_of(const ReadHalf& all, std::span<const std::size_t> indices) {
  ReadHalf part;
  part.images = part_of(all.images, indices);
  part.targets.place = [place = all.targets.place, rows = std::vector(indices.begin(), indices.end())](std::int64_t i) {
    return place(static_cast<std::int64_t>(rows[static_cast<std::size_t>(i)]));
  };
  if (!all.targets.labels.empty()) {
    part.targets.labels = rows_of<std::int32_t>(all.targets.labels, indices, 1);
    return part;
  }
  std::vector<std::int64_t> sizes(all.targets.values.shape().begin(), all.targets.values.shape().end());
  const std::size_t stride = static_cast<std::size_t>(all.targets.values.size() / std::max<std::int64_t>(sizes[0], 1));
  sizes[0] = part.images.samples;
  const auto take = [&]<class T>(T) {
    part.targets.values = Array::from(rows_of<T>(all.targets.values.data<T>(), indices, stride), Shape(sizes));
  };
  if (all.targets.values.dtype() == Dtype::f32)
    take(float{});
  else
    take(std::int32_t{});
  return part;
}

/// Takes a share of the samples out, the same on every machine.
ReadHalf hold_out(const Arrays& options, ReadHalf& half) {
  std::vector<std::size_t> order(static_cast<std::size_t>(half.images.samples));
  std::iota(order.begin(), order.end(), std::size_t{0});
  shuffle(order, Draws(random_stream(0, "arrays/holdout"), 0));
  const auto count = static_cast<std::size_t>(std::lround(options.holdout * static_cast<float>(order.size())));
  if (count == 0 || count == order.size())
    refuse(options,
           "nothing left to test on; add x_test and y_test, raise holdout, or train on everything with holdout: 0");
  const auto middle = order.begin() + static_cast<std::ptrdiff_t>(count);
  std::sort(order.begin(), middle);
  std::sort(middle, order.end());
  ReadHalf held = part_of(half, std::span(order).first(count));
  half = part_of(half, std::span(order).subspan(count));
  return held;
}

/// One name for each class that a half holds; none where targets are numbers. Passes on to the halves which labels of
/// masks are no class, and the one far above the others.
std::vector<std::string> name_classes(std::span<ReadHalf* const> halves) {
  std::int32_t classes = 0;
  MaskLabels masks;
  for (const ReadHalf* half : halves) {
    for (const std::int32_t label : half->targets.labels) classes = std::max(classes, label + 1);
    if (const SampleTarget form = half->targets.form(); form.is_dense())
      for (std::int64_t i = 0; i < half->targets.size(); ++i)
        masks.add(half->targets.values.data<std::int32_t>().subspan(static_cast<std::size_t>(i * form.shape.size()),
                                                                    static_cast<std::size_t>(form.shape.size())),
                  form.shape[1], [&] { return half->targets.place(i); });
  }
  if (halves[0]->targets.form().is_dense()) {
    classes = masks.classes();
    for (ReadHalf* half : halves) {
      half->targets.without_class = masks.without_class();
      half->targets.class_apart = masks.apart();
    }
  }
  std::vector<std::string> names;
  for (std::int32_t c = 0; c < classes; ++c) names.push_back(std::to_string(c));
  return names;
}

/// Reads the pixels of a sample, where they stay in their file.
template <class T>
std::function<std::vector<T>(std::int64_t)> reader_of(const ArrayImages& images) {
  if (!images.filed) return {};
  return [filed = images.filed, first_read = std::make_shared<FirstRead>(images.samples)](std::int64_t index) {
    std::vector<T> pixels = filed->read<T>(static_cast<std::size_t>(index), 1);
    if (!first_read->holds(index, std::as_bytes(std::span(pixels)))) fail_changed(filed->where);
    return pixels;
  };
}

std::shared_ptr<const Dataset> dataset_of(ReadHalf half, const std::vector<std::string>& names,
                                          const SmallTransform& transform, std::int64_t limit) {
  ArrayImages& images = half.images;
  if (images.is_bytes())
    return std::make_shared<StoredImages>(
        StoredImages::Content{images.sample_shape, std::move(images.bytes), std::move(half.targets),
                              reader_of<std::uint8_t>(images)},
        names, transform, limit);
  return std::make_shared<StoredFloats>(StoredFloats::Content{images.sample_shape, std::move(images.numbers),
                                                              std::move(half.targets), reader_of<float>(images)},
                                        names, transform, limit);
}

/// A folder's file of each half; else the path itself, without a test half.
HalfSources half_files(const fs::path& path) {
  if (std::error_code ignored; !fs::is_directory(path, ignored)) return {{path}};  // opening it says what is wrong
  for (const auto is_kind : {is_hdf5_name, is_table_name}) {
    const std::vector<HalfKind> kinds = {[=](const auto& entry) { return is_kind(entry.path()); }};
    const fs::path train = find_half(path, kTrainingWords, kinds);
    if (train.empty()) continue;
    const fs::path test = find_half(path, kEvaluationWords, kinds);
    return {{train}, test.empty() ? HalfSource{} : HalfSource{test}};
  }
  return {{path}};
}

/// The arrays of both halves; the second has no names where samples are held out. Throws without
/// images or targets.
struct BothHalves {
  HalfArrays train, test;
};
BothHalves find_arrays(const ArraySource& train, const ArraySource& test) {
  const bool is_one = &train == &test;
  BothHalves halves{{train, training_pair(train)}, {test, evaluation_pair(test)}};
  if (!is_one && halves.test.names.images.empty()) halves.test.names = training_pair(test);
  const auto check_pair = [](const HalfArrays& half, bool is_needed) {
    const auto& [images, targets] = half.names;
    if (images.empty() == targets.empty() && !(is_needed && images.empty())) return;
    fail(Fault::data, half.source.path().string(), ": holds ", fmt::format("{}", fmt::join(half.source.names(), ", ")),
         ", expected x_train and y_train with or without x_val and y_val (x_test and y_test), or images and labels");
  };
  check_pair(halves.train, true);
  check_pair(halves.test, !is_one);
  return halves;
}

/// Files beside those that are read, and arrays beside those that are.
std::vector<std::string> notes_of_others(const fs::path& path, const HalfSources& files, const BothHalves& halves) {
  const auto text_of = [](const ArrayPair& pair) {
    return pair.images.empty() ? "" : pair.images + " and " + pair.targets;
  };
  const auto& [train, test] = halves;
  const HalfNames arrays{text_of(train.names), text_of(test.names)};
  std::vector<std::string> notes;
  if (files.train.front() != path)
    note_left_out(
        path, names_of(files), [&](const fs::path& each) { return !files.use(each); }, notes);
  else if (fs::is_directory(path))
    note_left_out(
        path, arrays, [](const fs::path& each) { return !is_npy_name(each); }, notes);
  std::set<std::string> noted;  // places of arrays that are read or noted
  const auto place = [](const HalfArrays& half, const std::string& name) {
    return half.source.path().string() + ": " + name;
  };
  for (const HalfArrays& half : {train, test})
    for (const std::string& name : {half.names.images, half.names.targets}) noted.insert(place(half, name));
  for (const HalfArrays* half : {&train, &test})
    for (const std::string& name : half->source.names())
      if (const std::string each = place(*half, name); noted.insert(each).second) notes.push_back(arrays.note(each));
  return notes;
}

}  // namespace

Splits Arrays::open() const try {
  check(layout == "auto" || layout == "first" || layout == "last", "arrays: layout is ", layout,
        ", expected auto, first or last");
  check(target == "auto" || target == "class" || target == "numbers" || target == "mask", "arrays: target is ", target,
        ", expected auto, class, numbers or mask");
  const HalfSources files = half_files(path);
  const std::unique_ptr<ArraySource> source = open_arrays(files.train.front(), 1, nullptr, unpack);
  const std::vector<std::string> words = source->class_names();
  if (!words.empty() && target != "auto" && target != "class")
    refuse(*this, "the last column holds words, such as " + field_text(words[0]) + ", which are classes");
  const std::unique_ptr<ArraySource> held =
      files.test.empty() ? nullptr : open_arrays(files.test.front(), 1, source.get(), unpack);
  const BothHalves halves = find_arrays(*source, held ? *held : *source);
  ReadHalf train = read_half(*this, halves.train);
  SmallTransform transform{.pad = pad, .flip = flip, .augment = augment};
  const auto named = [&](std::initializer_list<ReadHalf*> read) {
    if (normalize) measure_images(train.images, transform.mean, transform.deviation);
    return words.empty() ? name_classes(std::span(read.begin(), read.size())) : words;
  };
  if (halves.test.names.images.empty() && holdout == 0) {
    const std::vector<std::string> names = named({&train});
    return {.train = dataset_of(std::move(train), names, transform, limit),
            .test = nullptr,
            .notes = notes_of_others(path, files, halves),
            .holds_out = false};
  }
  ReadHalf test = halves.test.names.images.empty() ? hold_out(*this, train) : read_half(*this, halves.test);
  const bool have_same_targets = test.targets.form() == train.targets.form();
  if (const std::string odd = have_same_targets ? "" : odd_row_text(halves.train, halves.test); !odd.empty())
    fail(Fault::data, odd);
  if (test.images.sample_shape != train.images.sample_shape || test.images.is_bytes() != train.images.is_bytes() ||
      !have_same_targets)
    refuse(*this, fmt::format("training samples are {}, test samples {}; the arrays do not belong together",
                              form_text(train), form_text(test)));
  const std::vector<std::string> names = named({&train, &test});
  return {dataset_of(std::move(train), names, transform, limit), dataset_of(std::move(test), names, transform, limit),
          notes_of_others(path, files, halves)};
} catch (const fs::filesystem_error& error) {
  fail_reading(error.path1(), error.code().value(), Fault::data, "check the folder and its permissions");
}

}  // namespace nixie
