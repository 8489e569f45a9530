// Hostile checkpoints, made with HDF5 itself: every way out of the file and into exhaustion is refused.
#include <hdf5.h>

#include "nixie/models/io/checkpoint.h"
#include "nixie/tests/models/checkpoint_samples.h"

namespace nixie {
namespace {

using Change = std::function<void(hid_t file, hid_t model)>;

class HostileCheckpoint : public CheckpointTest {
 protected:
  /// The error of loading a saved checkpoint that was changed through HDF5 itself.
  std::string error_after(const Change& change) const {
    save_checkpoint(small_sample(), file());
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fclose_degree(access, H5F_CLOSE_STRONG);
    H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    const hid_t id = H5Fopen(file().c_str(), H5F_ACC_RDWR, access);
    H5Pclose(access);
    change(id, H5Gopen2(id, "/model", H5P_DEFAULT));
    H5Fclose(id);
    return load_error(file(), {.model = std::nullopt, .unchecked = true});
  }
  void expect_refused(const std::string& expected, const Change& change) const {
    EXPECT_THAT(error_after(change), HasSubstr(expected));
  }
};

hid_t add_dataset(hid_t model, const char* name, hid_t type, std::vector<hsize_t> sizes, hid_t creation = H5P_DEFAULT) {
  const hid_t space =
      sizes.empty() ? H5Screate(H5S_NULL) : H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr);
  return H5Dcreate2(model, name, type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
}

/// Creation properties of a dataset in chunks, or in one piece.
hid_t creation_of(const std::vector<hsize_t>& chunk = {}) {
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  if (!chunk.empty()) H5Pset_chunk(creation, static_cast<int>(chunk.size()), chunk.data());
  return creation;
}

/// Adds a dataset whose first elements are given.
void add_values(hid_t model, const char* name, hid_t stored, const std::vector<hsize_t>& sizes, hid_t native,
                const void* values, hid_t creation = H5P_DEFAULT) {
  ASSERT_GE(H5Dwrite(add_dataset(model, name, stored, sizes, creation), native, H5S_ALL, H5S_ALL, H5P_DEFAULT, values),
            0);
}

hid_t text_type(std::size_t size) {
  const hid_t text = H5Tcopy(H5T_C_S1);
  H5Tset_size(text, size);
  return text;
}

TEST_F(HostileCheckpoint, LinksOutOfTheFile) {
  Checkpoint other;
  other.model["evil"] = Array(Dtype::f32, {3});
  save_checkpoint(other, file("other.h5"));
  const std::string target = file("other.h5").string(), why = " is a soft, external or user link";
  expect_refused("/model/evil" + why, [&](hid_t, hid_t model) {
    H5Lcreate_external(target.c_str(), "/model/evil", model, "evil", H5P_DEFAULT, H5P_DEFAULT);
  });
  expect_refused("/model/evil" + why, [&](hid_t, hid_t model) {
    H5Lcreate_soft("/model/layer0.weight", model, "evil", H5P_DEFAULT, H5P_DEFAULT);
  });
  expect_refused("/rng" + why, [&](hid_t id, hid_t) {
    H5Ldelete(id, "/rng", H5P_DEFAULT);
    H5Lcreate_external(target.c_str(), "/", id, "rng", H5P_DEFAULT, H5P_DEFAULT);
  });
  expect_refused("/config" + why, [&](hid_t id, hid_t) {
    H5Ldelete(id, "/config", H5P_DEFAULT);
    H5Lcreate_soft("/class_names", id, "config", H5P_DEFAULT, H5P_DEFAULT);
  });
}

TEST_F(HostileCheckpoint, ElementsInOtherFiles) {
  write_bytes(file("secret"), std::string(64, 's'));
  expect_refused("/model/evil keeps its elements in other files", [&](hid_t, hid_t model) {
    const hid_t creation = creation_of();
    H5Pset_external(creation, file("secret").c_str(), 0, 64);
    ASSERT_GE(add_dataset(model, "evil", H5T_NATIVE_UINT8, {64}, creation), 0);
  });
  expect_refused("/model/evil is a virtual dataset", [&](hid_t, hid_t model) {
    const hid_t creation = creation_of();
    const hsize_t size = 4;
    const hid_t space = H5Screate_simple(1, &size, nullptr);
    H5Pset_virtual(creation, space, file("other.h5").c_str(), "/model/evil", space);
    ASSERT_GE(add_dataset(model, "evil", H5T_NATIVE_UINT8, {4}, creation), 0);
  });
}

TEST_F(HostileCheckpoint, SizesThatAreNotStored) {
  expect_refused("/model/evil declares 4400000000000 bytes of elements, but the file stores 0", [](hid_t, hid_t model) {
    ASSERT_GE(add_dataset(model, "evil", H5T_NATIVE_FLOAT, {1'000'000, 1'100'000}, creation_of({1024, 1024})), 0);
  });
  expect_refused("/model/evil unpacks to 83", [](hid_t, hid_t model) {  // 80 MB of zeros in some kilobytes
    const hid_t creation = creation_of({1 << 20});
    H5Pset_shuffle(creation);
    H5Pset_deflate(creation, 9);
    const std::vector<char> zeros(80 << 20);
    add_values(model, "evil", H5T_NATIVE_UINT8, {80 << 20}, H5T_NATIVE_UINT8, zeros.data(), creation);
  });
  expect_refused("more than are left of the file's", [](hid_t, hid_t model) {  // one array under many names
    const std::vector<char> ones(100'000, 1);
    add_values(model, "evil", H5T_NATIVE_UINT8, {100'000}, H5T_NATIVE_UINT8, ones.data());
    for (int i = 0; i < 50; ++i)
      H5Lcreate_hard(model, "evil", model, fmt::format("evil{}", i).c_str(), H5P_DEFAULT, H5P_DEFAULT);
  });
}

TEST_F(HostileCheckpoint, StrangeObjects) {
  const float one = 1;
  expect_refused("/model/evil is damaged",
                 [](hid_t, hid_t model) { H5Gcreate2(model, "evil", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT); });
  expect_refused("/model/evil is damaged", [](hid_t id, hid_t model) {  // a cycle
    H5Lcreate_hard(id, "/", model, "evil", H5P_DEFAULT, H5P_DEFAULT);
  });
  expect_refused("/model/evil has no elements",
                 [](hid_t, hid_t model) { add_dataset(model, "evil", H5T_NATIVE_FLOAT, {}); });
  expect_refused("/model/evil has another element type",
                 [&](hid_t, hid_t model) { add_values(model, "evil", H5T_IEEE_F32BE, {1}, H5T_NATIVE_FLOAT, &one); });
  expect_refused("/model/evil has another element type", [](hid_t, hid_t model) {
    const char* text = "x";
    add_values(model, "evil", text_type(H5T_VARIABLE), {1}, text_type(H5T_VARIABLE), &text);
  });
  expect_refused("/model/evil can grow", [](hid_t, hid_t model) {
    const hsize_t size = 4, limit = H5S_UNLIMITED;
    H5Dcreate2(model, "evil", H5T_NATIVE_FLOAT, H5Screate_simple(1, &size, &limit), H5P_DEFAULT, creation_of({4}),
               H5P_DEFAULT);
  });
  expect_refused("/model/evil uses filter 5", [](hid_t, hid_t model) {
    const hid_t creation = creation_of({4});
    H5Pset_nbit(creation);
    add_dataset(model, "evil", H5T_NATIVE_INT, {4}, creation);
  });
  expect_refused("/model holds an invalid name",
                 [&](hid_t, hid_t model) { add_values(model, "e v", H5T_NATIVE_FLOAT, {1}, H5T_NATIVE_FLOAT, &one); });
}

/// Adds an attribute without a value, or puts one in the place of the old one.
void replace_attribute(hid_t id, const std::string& object, const std::string& name, hid_t type,
                       const std::vector<hsize_t>& sizes, const void* value) {
  if (H5Aexists_by_name(id, object.c_str(), name.c_str(), H5P_DEFAULT) > 0)
    H5Adelete_by_name(id, object.c_str(), name.c_str(), H5P_DEFAULT);
  const hid_t space =
      sizes.empty() ? H5Screate(H5S_SCALAR) : H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr);
  const hid_t attribute =
      H5Acreate_by_name(id, object.c_str(), name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  ASSERT_GE(attribute, 0);
  if (value) {
    ASSERT_GE(H5Awrite(attribute, type, value), 0);
  }
  H5Aclose(attribute);
}

TEST_F(HostileCheckpoint, StrangeAttributes) {
  expect_refused("/state @evil is a text of 2097152 bytes",
                 [&](hid_t id, hid_t) { replace_attribute(id, "/state", "evil", text_type(2 << 20), {}, nullptr); });
  expect_refused("/state @evil is no 64-bit integer", [&](hid_t id, hid_t) {
    replace_attribute(id, "/state", "evil", text_type(H5T_VARIABLE), {}, nullptr);
  });
}

// A list is no number of one element, and no list goes unseen.
TEST_F(HostileCheckpoint, ListsWhereValuesAreExpected) {
  const double numbers[] = {1, 2, 3, 4};
  for (const std::string object : {"/", "/state", "/rng", "/optimizer"})
    for (const std::vector<hsize_t>& sizes : std::vector<std::vector<hsize_t>>{{1}, {4}, {2, 2}, {0}})
      for (const char* name : {"evil", object == "/state" ? "step" : object == "/rng" ? "seed" : "type"})
        expect_refused(fmt::format("{} @{} is no single value", object, name),
                       [&](hid_t id, hid_t) { replace_attribute(id, object, name, H5T_IEEE_F64LE, sizes, numbers); });
  for (const std::vector<hsize_t>& sizes : std::vector<std::vector<hsize_t>>{{}, {1, 1}})
    expect_refused("/ @mean is no list of numbers",
                   [&](hid_t id, hid_t) { replace_attribute(id, "/", "mean", H5T_IEEE_F64LE, sizes, numbers); });
}

// save_checkpoint writes none, so whoever reads one has a changed file.
TEST_F(HostileCheckpoint, ArraysThatAreNotFinite) {
  for (const std::string array : {"/model/layer0.weight", "/optimizer/layer0.weight/momentum_buffer"})
    for (const float value : {NAN, INFINITY})
      expect_refused("last.h5: " + array + " is not finite", [&](hid_t id, hid_t) {
        const hid_t dataset = H5Dopen2(id, array.c_str(), H5P_DEFAULT);
        std::vector<float> values(48);
        values[47] = value;
        ASSERT_GE(H5Dwrite(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
        H5Dclose(dataset);
      });
}

TEST_F(HostileCheckpoint, RootsOfAnotherKind) {
  const std::int64_t seven = 7;
  const double half = 0.5;
  const hid_t text = text_type(4);
  const struct {
    const char* name;
    hid_t type;
    const void* value;
    const char* expected;
  } kCases[] = {{"layout", text, "NHWC", "/ holds another layout than \"row-major"},
                {"layout", H5T_STD_I64LE, &seven, "/ @layout has a value of another kind"},
                {"writer", H5T_STD_I64LE, &seven, "/ @writer has a value of another kind"},
                {"format_version", H5T_STD_I64LE, &seven, "/ holds the format_version 7, expected 1 to 2"},
                {"format_version", text, "1.00", "/ @format_version has a value of another kind"},
                {"upright", H5T_STD_I64LE, &seven, "/ holds upright 7, expected 0 or 1"},
                {"short_side", H5T_IEEE_F64LE, &half, "/ @short_side has a value of another kind"}};
  for (const auto& c : kCases)
    expect_refused(c.expected, [&](hid_t id, hid_t) { replace_attribute(id, "/", c.name, c.type, {}, c.value); });
}

TEST_F(HostileCheckpoint, UnknownObjects) {
  expect_refused("/ holds the unknown object \"evil\"",
                 [](hid_t id, hid_t) { add_dataset(id, "evil", H5T_NATIVE_FLOAT, {1}); });
  for (const std::string group : {"/state", "/rng"}) {
    const std::string evil = group + "/evil", expected = group + " holds the unknown object \"evil\"";
    expect_refused(expected, [&](hid_t id, hid_t) { add_dataset(id, evil.c_str(), H5T_NATIVE_FLOAT, {1}); });
    expect_refused(expected, [&](hid_t id, hid_t) {
      H5Gclose(H5Gcreate2(id, evil.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    });
  }
  for (const std::string object : {"/", "/model", "/model/half", "/optimizer/layer0.weight", "/config"})
    expect_refused(object + " holds the unknown attribute \"evil\"",
                   [&](hid_t id, hid_t) { replace_attribute(id, object, "evil", H5T_STD_I64LE, {}, nullptr); });
}

TEST_F(HostileCheckpoint, TooManyObjects) {
  expect_refused("/model brings more than 100000 objects", [](hid_t, hid_t model) {
    for (int i = 0; i <= 100'000; ++i)
      H5Lcreate_hard(model, "half", model, fmt::format("evil{}", i).c_str(), H5P_DEFAULT, H5P_DEFAULT);
  });
}

}  // namespace
}  // namespace nixie
