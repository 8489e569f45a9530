// Hostile checkpoints, made with HDF5 itself: every way out of the file and into exhaustion is refused.
#include <hdf5.h>

#include "nixie/models/io/checkpoint.h"
#include "nixie/tests/models/checkpoint_samples.h"

namespace nixie {
namespace {

/// Changes a saved checkpoint through HDF5 itself and returns what loading it says.
std::string hostile_error(const fs::path& file, const std::function<void(hid_t file, hid_t model)>& change) {
  save_checkpoint(small_sample(), file);
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_fclose_degree(access, H5F_CLOSE_STRONG);
  H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
  const hid_t id = H5Fopen(file.c_str(), H5F_ACC_RDWR, access);
  H5Pclose(access);
  change(id, H5Gopen2(id, "/model", H5P_DEFAULT));
  H5Fclose(id);
  return load_error(file, {.model = std::nullopt, .unchecked = true});
}

hid_t add_dataset(hid_t model, const char* name, hid_t type, std::vector<hsize_t> sizes, hid_t creation = H5P_DEFAULT) {
  const hid_t space =
      sizes.empty() ? H5Screate(H5S_NULL) : H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr);
  return H5Dcreate2(model, name, type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
}

TEST_F(CheckpointRefuses, LinksOutOfTheFile) {
  write_bytes(file("secret"), "secret");
  Checkpoint other;
  other.model["evil"] = Array(Dtype::f32, {3});
  save_checkpoint(other, file("other.h5"));
  const std::string target = file("other.h5").string();
  EXPECT_THAT(hostile_error(file(),
                            [&](hid_t, hid_t model) {
                              H5Lcreate_external(target.c_str(), "/model/evil", model, "evil", H5P_DEFAULT,
                                                 H5P_DEFAULT);
                            }),
              HasSubstr("/model/evil is a soft, external or user link"));
  EXPECT_THAT(hostile_error(file(),
                            [&](hid_t, hid_t model) {
                              H5Lcreate_soft("/model/layer0.weight", model, "evil", H5P_DEFAULT, H5P_DEFAULT);
                            }),
              HasSubstr("/model/evil is a soft, external or user link"));
  EXPECT_THAT(hostile_error(file(),
                            [&](hid_t id, hid_t) {
                              H5Ldelete(id, "/rng", H5P_DEFAULT);
                              H5Lcreate_external(target.c_str(), "/", id, "rng", H5P_DEFAULT, H5P_DEFAULT);
                            }),
              HasSubstr("/rng is a soft, external or user link"));
  EXPECT_THAT(hostile_error(file(),
                            [&](hid_t id, hid_t) {
                              H5Ldelete(id, "/config", H5P_DEFAULT);
                              H5Lcreate_soft("/class_names", id, "config", H5P_DEFAULT, H5P_DEFAULT);
                            }),
              HasSubstr("/config is a soft, external or user link"));
}

TEST_F(CheckpointRefuses, ElementsInOtherFiles) {
  write_bytes(file("secret"), std::string(64, 's'));
  EXPECT_THAT(hostile_error(file(),
                            [&](hid_t, hid_t model) {
                              const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
                              H5Pset_external(creation, file("secret").c_str(), 0, 64);
                              ASSERT_GE(add_dataset(model, "evil", H5T_NATIVE_UINT8, {64}, creation), 0);
                            }),
              HasSubstr("/model/evil keeps its elements in other files"));
  EXPECT_THAT(hostile_error(file(),
                            [&](hid_t, hid_t model) {
                              const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
                              const hsize_t size = 4;
                              const hid_t space = H5Screate_simple(1, &size, nullptr);
                              H5Pset_virtual(creation, space, file("other.h5").c_str(), "/model/evil", space);
                              ASSERT_GE(add_dataset(model, "evil", H5T_NATIVE_UINT8, {4}, creation), 0);
                            }),
              HasSubstr("/model/evil is a virtual dataset"));
}

TEST_F(CheckpointRefuses, SizesThatAreNotStored) {
  EXPECT_THAT(
      hostile_error(file(),
                    [](hid_t, hid_t model) {
                      const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
                      const hsize_t chunk[] = {1024, 1024};
                      H5Pset_chunk(creation, 2, chunk);
                      ASSERT_GE(add_dataset(model, "evil", H5T_NATIVE_FLOAT, {1'000'000, 1'100'000}, creation), 0);
                    }),
      HasSubstr("/model/evil declares 4400000000000 bytes of elements, but the file stores 0"));
  EXPECT_THAT(hostile_error(file(),
                            [](hid_t, hid_t model) {  // 80 MB of zeros in some kilobytes
                              const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
                              const hsize_t chunk = 1 << 20;
                              H5Pset_chunk(creation, 1, &chunk);
                              H5Pset_shuffle(creation);
                              H5Pset_deflate(creation, 9);
                              const hid_t evil = add_dataset(model, "evil", H5T_NATIVE_UINT8, {80 << 20}, creation);
                              const std::vector<char> zeros(80 << 20);
                              ASSERT_GE(H5Dwrite(evil, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, zeros.data()),
                                        0);
                            }),
              HasSubstr("/model/evil unpacks to 83"));
  EXPECT_THAT(hostile_error(
                  file(),
                  [](hid_t, hid_t model) {  // one array under many names
                    const hid_t evil = add_dataset(model, "evil", H5T_NATIVE_UINT8, {100'000});
                    const std::vector<char> ones(100'000, 1);
                    ASSERT_GE(H5Dwrite(evil, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, ones.data()), 0);
                    for (int i = 0; i < 50; ++i)
                      H5Lcreate_hard(model, "evil", model, fmt::format("evil{}", i).c_str(), H5P_DEFAULT, H5P_DEFAULT);
                  }),
              HasSubstr("more than are left of the file's"));
}

TEST_F(CheckpointRefuses, StrangeObjects) {
  EXPECT_THAT(hostile_error(
                  file(), [](hid_t, hid_t model) { H5Gcreate2(model, "evil", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT); }),
              HasSubstr("/model/evil is damaged"));
  EXPECT_THAT(hostile_error(file(),
                            [](hid_t id, hid_t model) {  // a cycle
                              H5Lcreate_hard(id, "/", model, "evil", H5P_DEFAULT, H5P_DEFAULT);
                            }),
              HasSubstr("/model/evil is damaged"));
  EXPECT_THAT(hostile_error(file(), [](hid_t, hid_t model) { add_dataset(model, "evil", H5T_NATIVE_FLOAT, {}); }),
              HasSubstr("/model/evil has no elements"));
  EXPECT_THAT(hostile_error(file(),
                            [](hid_t, hid_t model) {
                              const float one = 1;
                              H5Dwrite(add_dataset(model, "evil", H5T_IEEE_F32BE, {1}), H5T_NATIVE_FLOAT, H5S_ALL,
                                       H5S_ALL, H5P_DEFAULT, &one);
                            }),
              HasSubstr("/model/evil has another element type"));
  EXPECT_THAT(hostile_error(file(),
                            [](hid_t, hid_t model) {
                              const hid_t text = H5Tcopy(H5T_C_S1);
                              H5Tset_size(text, H5T_VARIABLE);
                              const char* one = "x";
                              H5Dwrite(add_dataset(model, "evil", text, {1}), text, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                                       &one);
                            }),
              HasSubstr("/model/evil has another element type"));
  EXPECT_THAT(hostile_error(file(),
                            [](hid_t, hid_t model) {
                              const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
                              const hsize_t size = 4, limit = H5S_UNLIMITED;
                              H5Pset_chunk(creation, 1, &size);
                              H5Dcreate2(model, "evil", H5T_NATIVE_FLOAT, H5Screate_simple(1, &size, &limit),
                                         H5P_DEFAULT, creation, H5P_DEFAULT);
                            }),
              HasSubstr("/model/evil can grow"));
  EXPECT_THAT(hostile_error(file(),
                            [](hid_t, hid_t model) {
                              const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
                              const hsize_t size = 4;
                              H5Pset_chunk(creation, 1, &size);
                              H5Pset_nbit(creation);
                              add_dataset(model, "evil", H5T_NATIVE_INT, {4}, creation);
                            }),
              HasSubstr("/model/evil uses filter 5"));
  EXPECT_THAT(hostile_error(file(),
                            [](hid_t, hid_t model) {
                              const float one = 1;
                              H5Dwrite(add_dataset(model, "e v", H5T_NATIVE_FLOAT, {1}), H5T_NATIVE_FLOAT, H5S_ALL,
                                       H5S_ALL, H5P_DEFAULT, &one);
                            }),
              HasSubstr("/model holds an invalid name"));
}

TEST_F(CheckpointRefuses, StrangeAttributes) {
  const auto add = [](hid_t id, hid_t type) {
    const hid_t attribute =
        H5Acreate_by_name(id, "/state", "evil", type, H5Screate(H5S_SCALAR), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    ASSERT_GE(attribute, 0);
    H5Aclose(attribute);
  };
  EXPECT_THAT(hostile_error(file(),
                            [&](hid_t id, hid_t) {
                              const hid_t text = H5Tcopy(H5T_C_S1);
                              H5Tset_size(text, 2 << 20);
                              add(id, text);
                            }),
              HasSubstr("/state @evil is a text of 2097152 bytes"));
  EXPECT_THAT(hostile_error(file(),
                            [&](hid_t id, hid_t) {
                              const hid_t text = H5Tcopy(H5T_C_S1);
                              H5Tset_size(text, H5T_VARIABLE);
                              add(id, text);
                            }),
              HasSubstr("/state @evil is no 64-bit integer"));
}

/// Puts an attribute in the place of the old one, if there was any.
void replace_attribute(hid_t id, const std::string& object, const std::string& name, hid_t type,
                       const std::vector<hsize_t>& sizes, const void* value) {
  if (H5Aexists_by_name(id, object.c_str(), name.c_str(), H5P_DEFAULT) > 0)
    H5Adelete_by_name(id, object.c_str(), name.c_str(), H5P_DEFAULT);
  const hid_t space =
      sizes.empty() ? H5Screate(H5S_SCALAR) : H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr);
  const hid_t attribute =
      H5Acreate_by_name(id, object.c_str(), name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  ASSERT_GE(attribute, 0);
  ASSERT_GE(H5Awrite(attribute, type, value), 0);
  H5Aclose(attribute);
}

// A list is no number of one element, and no list goes unseen.
TEST_F(CheckpointRefuses, ListsWhereValuesAreExpected) {
  const double numbers[] = {1, 2, 3, 4};
  for (const std::string object : {"/", "/state", "/rng", "/optimizer"})
    for (const std::vector<hsize_t>& sizes : std::vector<std::vector<hsize_t>>{{1}, {4}, {2, 2}, {0}})
      for (const char* name : {"evil", object == "/state" ? "step" : object == "/rng" ? "seed" : "type"}) {
        const std::string error = hostile_error(
            file(), [&](hid_t id, hid_t) { replace_attribute(id, object, name, H5T_IEEE_F64LE, sizes, numbers); });
        EXPECT_THAT(error, HasSubstr(fmt::format("{} @{} is no single value", object, name)));
      }
  for (const std::vector<hsize_t>& sizes : std::vector<std::vector<hsize_t>>{{}, {1, 1}}) {
    const std::string error = hostile_error(
        file(), [&](hid_t id, hid_t) { replace_attribute(id, "/", "mean", H5T_IEEE_F64LE, sizes, numbers); });
    EXPECT_THAT(error, HasSubstr("/ @mean is no list of numbers"));
  }
}

// save_checkpoint writes none, so whoever reads one has a changed file.
TEST_F(CheckpointRefuses, ArraysThatAreNotFinite) {
  for (const std::string array : {"/model/layer0.weight", "/optimizer/layer0.weight/momentum_buffer"})
    for (const float value : {NAN, INFINITY}) {
      const std::string error = hostile_error(file(), [&](hid_t id, hid_t) {
        const hid_t dataset = H5Dopen2(id, array.c_str(), H5P_DEFAULT);
        std::vector<float> values(48);
        values[47] = value;
        ASSERT_GE(H5Dwrite(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
        H5Dclose(dataset);
      });
      EXPECT_THAT(error, HasSubstr("last.h5: " + array + " is not finite"));
    }
}

TEST_F(CheckpointRefuses, RootsOfAnotherKind) {
  const std::int64_t seven = 7;
  const double half = 0.5;
  const hid_t text = H5Tcopy(H5T_C_S1);
  H5Tset_size(text, 4);
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
  for (const auto& c : kCases) {
    const std::string error =
        hostile_error(file(), [&](hid_t id, hid_t) { replace_attribute(id, "/", c.name, c.type, {}, c.value); });
    EXPECT_THAT(error, HasSubstr(c.expected));
  }
}

TEST_F(CheckpointRefuses, UnknownObjects) {
  EXPECT_THAT(hostile_error(file(), [](hid_t id, hid_t) { add_dataset(id, "evil", H5T_NATIVE_FLOAT, {1}); }),
              HasSubstr("/ holds the unknown object \"evil\""));
  for (const std::string group : {"/state", "/rng"})
    for (const bool is_array : {false, true}) {
      const std::string error = hostile_error(file(), [&](hid_t id, hid_t) {
        if (is_array)
          add_dataset(id, (group + "/evil").c_str(), H5T_NATIVE_FLOAT, {1});
        else
          H5Gclose(H5Gcreate2(id, (group + "/evil").c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
      });
      EXPECT_THAT(error, HasSubstr(group + " holds the unknown object \"evil\""));
    }
  for (const std::string object : {"/", "/model", "/model/half", "/optimizer/layer0.weight", "/config"}) {
    const auto add = [&](hid_t id, hid_t) {
      H5Aclose(H5Acreate_by_name(id, object.c_str(), "evil", H5T_STD_I64LE, H5Screate(H5S_SCALAR), H5P_DEFAULT,
                                 H5P_DEFAULT, H5P_DEFAULT));
    };
    const std::string error = hostile_error(file(), add);
    EXPECT_THAT(error, HasSubstr(object + " holds the unknown attribute \"evil\""));
  }
}

TEST_F(CheckpointRefuses, TooManyObjects) {
  EXPECT_THAT(hostile_error(file(),
                            [](hid_t, hid_t model) {
                              for (int i = 0; i <= 100'000; ++i)
                                H5Lcreate_hard(model, "half", model, fmt::format("evil{}", i).c_str(), H5P_DEFAULT,
                                               H5P_DEFAULT);
                            }),
              HasSubstr("/model brings more than 100000 objects"));
}

}  // namespace
}  // namespace nixie
