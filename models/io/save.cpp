// A model, and an optimizer, to one file and back.
#include "nixie/models/io/save.h"

#include "nixie/models/io/checkpoint_state.h"

namespace nixie {

void save(const Model& model, const std::filesystem::path& path) {
  Checkpoint checkpoint;
  add(model, checkpoint);
  check_saves(checkpoint, model);
  save_checkpoint(checkpoint, path);
}

void save(const Model& model, const Optimizer& optimizer, const std::filesystem::path& path) {
  Checkpoint checkpoint;
  add(model, checkpoint);
  add(optimizer, checkpoint);
  check_saves(checkpoint, model, &optimizer);
  save_checkpoint(checkpoint, path);
}

void load(const Model& model, const std::filesystem::path& path) {
  restore(load_checkpoint(path), path.string(), model);
}

void load(const Model& model, const Optimizer& optimizer, const std::filesystem::path& path) {
  restore(load_checkpoint(path), path.string(), model, &optimizer);
}

}  // namespace nixie
