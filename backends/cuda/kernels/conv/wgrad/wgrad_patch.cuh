// The patch of pixels that taps share in conv_wgrad_halo_sm90.cuh, and where each tap finds its pixels. Used by the
// kernel, by the host code that launches it, and by its test.
#pragma once

namespace nixie::cuda {

/// A stage consists of gradients at `high` rows of 8 places (8 / together columns of `together` images) and of the
/// pixels by which the taps of a tile multiply them. A place holds the channels of one pixel. A tile has `lines` runs
/// of
/// `run` taps side by side; runs go across the window and lines down, or the reverse.
struct WgradPatch {
  int taps_h = 1, taps_w = 1, dilation_h = 1, dilation_w = 1;  // the window
  int together = 1, high = 2;
  bool down = false;  // runs go down, lines across
  int run = 1, lines = 1;

  struct Tap {
    int h = 0, w = 0;
  };
  constexpr int run_tiles() const { return ((down ? taps_h : taps_w) + run - 1) / run; }
  constexpr int line_tiles() const { return ((down ? taps_w : taps_h) + lines - 1) / lines; }
  constexpr int tiles() const { return run_tiles() * line_tiles(); }  // of the window's taps
  /// A tap of a tile; it may be outside the window in the last tiles.
  constexpr Tap tap(int tile, int line, int in_run) const {
    const int along = tile % run_tiles() * run + in_run, beside = tile / run_tiles() * lines + line;
    return down ? Tap{along, beside} : Tap{beside, along};
  }
  constexpr bool has(Tap tap) const { return tap.h < taps_h && tap.w < taps_w; }

  /// The first gradient of a patch, of images with p x q gradients; the patch may extend beyond them, where it is zero.
  struct Corner {
    int image = 0, h = 0, w = 0;
  };
  constexpr int across(int q) const { return (q + wide() - 1) / wide(); }
  constexpr int down_to(int p) const { return (p + high - 1) / high; }
  constexpr Corner corner(int patch, int p, int q) const {
    const int row = patch / across(q);
    return {row / down_to(p) * together, row % down_to(p) * high, patch % across(q) * wide()};
  }

  constexpr int wide() const { return 8 / together; }
  constexpr int rows() const { return high + ((down ? run : lines) - 1) * dilation_h; }
  constexpr int columns() const { return wide() + ((down ? lines : run) - 1) * dilation_w; }
  constexpr int pitch() const { return columns() * together; }  // places from one row to the next
  constexpr int places() const { return pitch() * rows(); }
  /// Places from a tap's pixels to those of the next tap of its run, and to those of the same tap of the next line.
  constexpr int run_step() const { return down ? pitch() * dilation_h : together * dilation_w; }
  constexpr int line_step() const { return down ? together * dilation_w : pitch() * dilation_h; }
};

}  // namespace nixie::cuda
