// safetensors: the header is checked as a whole before any element is read.
#include "nixie/models/io/safetensors.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "nixie/core/files/open_to_read.h"
#include "nixie/models/io/durable_file.h"

namespace nixie {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxHeader = 100'000'000;  // the format's own limit
constexpr std::size_t kMaxDepth = 3;               // root, array, its shape
constexpr std::size_t kMaxRank = 64, kMaxShown = 100;
constexpr const char* kMetadata = "__metadata__";
static_assert(std::endian::native == std::endian::little, "elements are read and written as they are in memory");

struct StoredType {
  const char* name;
  Dtype dtype;
};
constexpr StoredType kTypes[] = {{"F64", Dtype::f64},      {"F32", Dtype::f32},        {"F16", Dtype::f16},
                                 {"BF16", Dtype::bf16},    {"I64", Dtype::i64},        {"I32", Dtype::i32},
                                 {"I16", Dtype::i16},      {"I8", Dtype::i8},          {"U64", Dtype::u64},
                                 {"U32", Dtype::u32},      {"U16", Dtype::u16},        {"U8", Dtype::u8},
                                 {"BOOL", Dtype::boolean}, {"F8_E4M3", Dtype::f8e4m3}, {"F8_E5M2", Dtype::f8e5m2}};

const char* name_of(Dtype dtype) {
  return std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto& type) { return type.dtype == dtype; })
      ->name;
}

/// A name from the file as a message may repeat it.
std::string shown(const std::string& name) {
  std::string text = name.substr(0, kMaxShown);
  for (char& c : text)
    if (c < ' ' || c > '~') c = '?';
  return text;
}

/// Refuses what the parser of JSON accepts: a key that repeats another of its object, and deep nesting. It is a pass of
/// its own, since the parser that asks a callback looks at all of an object's values after each of them.
class HeaderCheck final : public nlohmann::json_sax<json> {
 public:
  /// Returns what is wrong with the text; "" if nothing is, or if the text is no JSON.
  static std::string fault_of(const std::string& text) {
    HeaderCheck check;
    json::sax_parse(text, &check);
    return check.fault_;
  }

  bool key(std::string& name) override {
    if (objects_.empty() || objects_.back().insert(name).second) return true;
    fault_ = fmt::format("holds \"{}\" twice in an object of its header", shown(name));
    return false;
  }
  bool start_object(std::size_t) override {
    objects_.emplace_back();
    return opens();
  }
  bool end_object() override {
    objects_.pop_back();
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override { return opens(); }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(std::int64_t) override { return true; }
  bool number_unsigned(std::uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(json::binary_t&) override { return true; }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override { return false; }

 private:
  bool opens() {
    if (++depth_ <= kMaxDepth) return true;
    fault_ = "has a header that is nested too deeply";
    return false;
  }

  std::vector<std::set<std::string>> objects_;  // the keys so far of each open object
  std::size_t depth_ = 0;
  std::string fault_;
};

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path)
      : path_(path), file_(open_to_read(path, Fault::checkpoint, "name another file")) {
    file_.seekg(0, std::ios::end);  // of the file that is open: another may have taken its name
    const std::streamoff bytes = file_.tellg();
    if (bytes < 0) fail_reading(path, errno, Fault::checkpoint, "name another file");
    bytes_ = static_cast<std::uint64_t>(bytes);
    file_.seekg(0);
  }

  Safetensors read() {
    const json header = read_header();
    Safetensors result;
    std::vector<Entry> entries;
    for (const auto& [name, value] : header.items()) {
      if (name == kMetadata)
        result.metadata = metadata_of(value);
      else
        entries.push_back(entry_of(name, value));
    }
    check_layout(entries);
    for (const Entry& entry : entries) {
      if (entry.type)
        result.arrays.emplace(entry.name, read_array(entry));
      else
        result.skipped.push_back(entry.name);
    }
    return result;
  }

 private:
  struct Entry {
    std::string name;
    const StoredType* type;  // null: unknown
    Shape shape;
    std::uint64_t begin, end;  // in the data
  };

  [[noreturn]] void refuse(const std::string& what, const char* remedy = "fetch or export the file again") const {
    fail(Fault::checkpoint, path_.string(), ": ", what, "; ", remedy);
  }
  [[noreturn]] void refuse_array(const std::string& name, const std::string& what) const {
    refuse("array \"" + shown(name) + "\" " + what);
  }

  json read_header() {
    std::array<unsigned char, 8> length{};
    if (!file_.read(reinterpret_cast<char*>(length.data()), 8)) refuse("is too short to be a safetensors file");
    std::uint64_t header_bytes = 0;
    for (int i = 7; i >= 0; --i) header_bytes = header_bytes << 8 | length[static_cast<std::size_t>(i)];
    if (header_bytes > kMaxHeader || header_bytes > bytes_ - 8)
      refuse(fmt::format("announces a header of {} bytes in a file of {}", header_bytes, bytes_));
    std::string text(header_bytes, '\0');
    if (!file_.read(text.data(), static_cast<std::streamsize>(header_bytes))) refuse("ends inside its header");
    data_begin_ = 8 + header_bytes;
    if (!text.starts_with('{')) refuse("has a header that is no JSON object");
    return parse(text);
  }

  json parse(const std::string& text) const {
    if (const std::string fault = HeaderCheck::fault_of(text); !fault.empty()) refuse(fault);
    json header = json::parse(text, nullptr, false);
    if (header.is_discarded()) refuse("has a header that is no JSON");
    if (!header.is_object()) refuse("has a header that is no JSON object");
    return header;
  }

  std::map<std::string, std::string> metadata_of(const json& value) const {
    if (value.is_null()) return {};
    if (!value.is_object()) refuse("has metadata that are no texts by name");
    std::map<std::string, std::string> texts;
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) refuse("has metadata that are no texts by name");
      texts[key] = text.get<std::string>();
    }
    return texts;
  }

  Entry entry_of(const std::string& name, const json& value) const {
    const auto is_count = [](const json& number) { return number.is_number_unsigned(); };
    const auto counts = [&](const char* key) -> const json& {
      const auto found = value.find(key);
      if (found == value.end() || !found->is_array() || !std::all_of(found->begin(), found->end(), is_count))
        refuse_array(name, fmt::format("has no {} of whole numbers", key));
      return *found;
    };
    if (!value.is_object() || value.size() != 3) refuse_array(name, "is not {dtype, shape, data_offsets}");
    const auto dtype = value.find("dtype");
    if (dtype == value.end() || !dtype->is_string()) refuse_array(name, "has no dtype");
    const auto type = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto& known) {
      return known.name == dtype->get_ref<const std::string&>();
    });
    const json &sizes = counts("shape"), &offsets = counts("data_offsets");
    if (sizes.size() > kMaxRank) refuse_array(name, fmt::format("has {} dimensions", sizes.size()));
    if (offsets.size() != 2) refuse_array(name, "has no begin and end");

    const auto begin = offsets[0].get<std::uint64_t>(), end = offsets[1].get<std::uint64_t>();
    if (begin > end || end > bytes_ - data_begin_)
      refuse_array(name, fmt::format("is at bytes {} to {} of {}", begin, end, bytes_ - data_begin_));
    if (type == std::end(kTypes)) return {name, nullptr, {}, begin, end};  // its bytes are skipped
    const std::optional<Shape> shape = shape_of(sizes.get<std::vector<std::uint64_t>>());
    if (!shape) refuse_array(name, fmt::format("has the impossible shape {}", sizes.dump().substr(0, kMaxShown)));
    if (static_cast<std::uint64_t>(shape->size() * size_of(type->dtype)) != end - begin)
      refuse_array(name, fmt::format("has {} bytes, which its type and shape do not give", end - begin));
    return {name, type, *shape, begin, end};
  }

  /// Nothing where a size or their product is beyond what a Shape may have.
  static std::optional<Shape> shape_of(const std::vector<std::uint64_t>& sizes) {
    constexpr auto kMost = static_cast<std::uint64_t>(Shape::kMostElements);
    std::uint64_t elements = 1;
    for (const std::uint64_t size : sizes) {
      if (size > kMost / elements) return {};
      elements *= std::max<std::uint64_t>(size, 1);
    }
    return Shape(std::vector<std::int64_t>(sizes.begin(), sizes.end()));
  }

  /// The arrays fill the data from its start to its end, in some order.
  void check_layout(const std::vector<Entry>& entries) const {
    std::vector<const Entry*> order;
    for (const Entry& entry : entries) order.push_back(&entry);
    std::sort(order.begin(), order.end(),
              [](const Entry* a, const Entry* b) { return std::pair(a->begin, a->end) < std::pair(b->begin, b->end); });
    std::uint64_t at = 0;
    for (const Entry* entry : order) {
      if (entry->begin != at)
        refuse_array(entry->name, entry->begin < at ? "overlaps another" : "leaves a gap in front of it");
      at = entry->end;
    }
    if (at != bytes_ - data_begin_)
      refuse(fmt::format("has {} bytes behind its last array", bytes_ - data_begin_ - at));
  }

  Array read_array(const Entry& entry) {
    Array array(entry.type->dtype, entry.shape);
    file_.seekg(static_cast<std::streamoff>(data_begin_ + entry.begin));
    file_.read(reinterpret_cast<char*>(array.bytes()), static_cast<std::streamsize>(array.size_bytes()));
    if (file_.bad()) fail_reading(path_, errno, Fault::checkpoint, "name another file");
    if (!file_) refuse_array(entry.name, "cannot be read to its end");
    if (!array.holds_bools()) refuse_array(entry.name, "holds a bool other than 0 and 1");
    return array;
  }

  std::filesystem::path path_;
  std::ifstream file_;
  std::uint64_t bytes_ = 0, data_begin_ = 0;
};

}  // namespace

void save_safetensors(const Safetensors& file, const std::filesystem::path& path) {
  // Wide types first, so that every array is aligned to its elements.
  std::vector<const std::pair<const std::string, Array>*> order;
  for (const auto& named : file.arrays) order.push_back(&named);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return size_of(a->second.dtype()) > size_of(b->second.dtype());
  });
  json header = json::object();
  if (!file.metadata.empty()) header[kMetadata] = file.metadata;
  std::int64_t data_bytes = 0;
  for (const auto* named : order) {
    const auto& [name, array] = *named;
    check(name != kMetadata, "safetensors: the name ", kMetadata, " is taken by the format");
    const std::int64_t begin = data_bytes;
    data_bytes += array.size_bytes();
    header[name] = {
        {"dtype", name_of(array.dtype())}, {"shape", array.shape().sizes()}, {"data_offsets", {begin, data_bytes}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::array<std::byte, 8> length{};
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<std::byte>(text.size() >> (8 * i));

  PendingFile out(path, static_cast<std::int64_t>(8 + text.size()) + data_bytes);
  out.write(length);
  out.write(std::as_bytes(std::span(text)));
  for (const auto* named : order)
    out.write({named->second.bytes(), static_cast<std::size_t>(named->second.size_bytes())});
  out.sync();
  out.publish();
}

Safetensors load_safetensors(const std::filesystem::path& path) { return Reader(path).read(); }

}  // namespace nixie
