// HDF5's error stack and element types.
#include "nixie/core/files/hdf5.h"

#include <fmt/format.h>
#include <hdf5.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <string_view>
#include <type_traits>
#include <vector>

namespace nixie::hdf5 {
namespace {

static_assert(std::is_same_v<hid_t, Id> || sizeof(hid_t) == sizeof(Id));

Handle float_type(std::size_t exponent_bits, std::size_t fraction_bits) {
  Handle type(H5Tcopy(H5T_IEEE_F32LE), H5Tclose);
  const std::size_t sign = exponent_bits + fraction_bits;
  H5Tset_fields(type, sign, fraction_bits, exponent_bits, 0, fraction_bits);
  H5Tset_size(type, (sign + 1) / 8);
  H5Tset_ebias(type, (std::size_t{1} << (exponent_bits - 1)) - 1);
  return type;
}

herr_t keep_description(unsigned, const H5E_error2_t* error, void* result) {
  if (!error->desc) return 1;
  auto& failure = *static_cast<Failure*>(result);
  // HDF5 also prints the time, descriptor and address of a failed call.
  constexpr std::string_view kNumber = "errno = ", kCause = "error message = '";
  std::string_view what = error->desc;
  if (const std::size_t at = what.find(kNumber); at != std::string_view::npos)
    failure.error = std::atoi(what.data() + at + kNumber.size());
  if (const std::size_t at = what.find(kCause); at != std::string_view::npos) {
    what.remove_prefix(at + kCause.size());
    what = what.substr(0, what.find('\''));
  }
  failure.text = what;
  return 1;  // the first one is the deepest
}

}  // namespace

Quiet::Quiet() {
  // HDF5 crashes where it finds no memory as it begins, so what it takes then is tried first: in small pieces, as it
  // takes them, since large ones come from elsewhere.
  constexpr std::size_t kPieces = 256, kPiece = 64 << 10;
  std::vector<std::unique_ptr<char[]>> pieces(kPieces);
  for (auto& piece : pieces) {
    piece.reset(new (std::nothrow) char[kPiece]);
    if (!piece)
      fail(Fault::memory, "out of memory: HDF5 takes ", (kPieces * kPiece) >> 20,
           " MiB beside what it reads and writes");
  }
  pieces.clear();
  // Damaged files leave HDF5 1.10 in a state that its cleanup at exit cannot unwind. All our files are closed by then.
  static const herr_t no_cleanup_at_exit = H5dont_atexit();
  static_cast<void>(no_cleanup_at_exit);
  H5open();
  H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  H5PLset_loading_state(0);
}

Quiet::~Quiet() { H5Eset_auto2(H5E_DEFAULT, function_, data_); }

std::string version() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

Failure last_failure() {
  Failure failure;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_description, &failure);
  return failure;
}

Handle file_type(Dtype dtype) {
  const std::pair<Dtype, Id> kStandard[] = {{Dtype::f64, H5T_IEEE_F64LE}, {Dtype::f32, H5T_IEEE_F32LE},
                                            {Dtype::i64, H5T_STD_I64LE},  {Dtype::i32, H5T_STD_I32LE},
                                            {Dtype::i16, H5T_STD_I16LE},  {Dtype::i8, H5T_STD_I8LE},
                                            {Dtype::u64, H5T_STD_U64LE},  {Dtype::u32, H5T_STD_U32LE},
                                            {Dtype::u16, H5T_STD_U16LE},  {Dtype::u8, H5T_STD_U8LE}};
  for (const auto& [known, type] : kStandard)
    if (known == dtype) return {H5Tcopy(type), H5Tclose};
  if (dtype == Dtype::f16) return float_type(5, 10);
  if (dtype == Dtype::bf16) return float_type(8, 7);
  if (dtype == Dtype::f8e4m3) return float_type(4, 3);
  if (dtype == Dtype::f8e5m2) return float_type(5, 2);
  Handle type(H5Tenum_create(H5T_STD_I8LE), H5Tclose);  // as h5py writes bools
  const std::int8_t no = 0, yes = 1;
  H5Tenum_insert(type, "FALSE", &no);
  H5Tenum_insert(type, "TRUE", &yes);
  return type;
}

std::optional<Dtype> dtype_of_type(Id type) {
  for (int i = 0; i < kDtypeCount; ++i)
    if (H5Tequal(file_type(static_cast<Dtype>(i)), type) > 0) return static_cast<Dtype>(i);
  return std::nullopt;
}

std::optional<NumberFormat> number_format(Id type) {
  const struct {
    const char* name;
    Id little, big;
  } kKnown[] = {{"u1", H5T_STD_U8LE, H5T_STD_U8BE},     {"i1", H5T_STD_I8LE, H5T_STD_I8BE},
                {"u2", H5T_STD_U16LE, H5T_STD_U16BE},   {"i2", H5T_STD_I16LE, H5T_STD_I16BE},
                {"u4", H5T_STD_U32LE, H5T_STD_U32BE},   {"i4", H5T_STD_I32LE, H5T_STD_I32BE},
                {"u8", H5T_STD_U64LE, H5T_STD_U64BE},   {"i8", H5T_STD_I64LE, H5T_STD_I64BE},
                {"f4", H5T_IEEE_F32LE, H5T_IEEE_F32BE}, {"f8", H5T_IEEE_F64LE, H5T_IEEE_F64BE}};
  for (const auto& [name, little, big] : kKnown)
    if (H5Tequal(type, little) > 0 || H5Tequal(type, big) > 0) return NumberFormat{name, little};
  const std::optional<Dtype> own = dtype_of_type(type);
  if (own == Dtype::f16) return NumberFormat{"f2", type};
  if (own == Dtype::boolean) return NumberFormat{"b1", type};
  return std::nullopt;
}

Handle string_type(std::size_t bytes) {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type, bytes ? bytes : 1);
  H5Tset_strpad(type, H5T_STR_NULLPAD);
  H5Tset_cset(type, H5T_CSET_UTF8);
  return type;
}

}  // namespace nixie::hdf5
