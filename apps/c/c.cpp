// The functions of c.h: each catches what the library throws and keeps its line for the thread.
#include "nixie/apps/c/c.h"

#include "nixie/apps/trainer/evaluator.h"
#include "nixie/apps/trainer/trained_model.h"
#include "nixie/backends/registry.h"
#include "nixie/core/graph/exchange.h"
#include "nixie/data/normalization.h"

struct nixie_net {
  nixie_net(const char* checkpoint, const char* device)
      : trained(nixie::load_trained(checkpoint)),
        backend(nixie::make_backend(device, trained.config.threads)),
        step(
            *backend, [this](const nixie::Inputs& in) { return scores(in["images"]); }, trained.config.policy()) {}

  nixie::Normalization normalization() const {
    const auto& [mean, deviation] = std::tie(trained.preparation.mean, trained.preparation.deviation);
    return nixie::Normalization(trained.preparation.channels, {mean.begin(), mean.end()},
                                {deviation.begin(), deviation.end()});
  }

  nixie::Outputs scores(const nixie::Tensor& images) const {
    const bool is_bytes = images.dtype() == nixie::Dtype::u8;
    nixie::Pass pass{.training = false};
    const nixie::Tensor output = trained.model(is_bytes ? normalization()(images) : images, pass);
    return {{"scores", cast(class_scores(output, trained.config.loss), nixie::Dtype::f32)}};
  }

  nixie::TrainedModel trained;
  std::shared_ptr<nixie::Backend> backend;
  nixie::Step step;
};

namespace {

thread_local std::string last_error;

template <class Work>
int guarded(const Work& work) {
  try {
    work();
    return 0;
  } catch (const nixie::Error& error) {
    last_error = error.what();
    return error.exit_code();
  } catch (const std::bad_alloc&) {
    last_error = "out of memory";
    return static_cast<int>(nixie::Fault::memory);
  } catch (const std::exception& error) {
    last_error = error.what();
    return 1;
  }
}

}  // namespace

const char* nixie_last_error(void) { return last_error.c_str(); }

nixie_net* nixie_load(const char* checkpoint, const char* device) {
  nixie_net* net = nullptr;
  guarded([&] {
    nixie::check(checkpoint && device, "nixie_load: the path or the device is NULL");
    net = new nixie_net(checkpoint, device);
  });
  return net;
}

void nixie_free(nixie_net* net) { delete net; }

void nixie_sample_shape(const nixie_net* net, int64_t sizes[3]) {
  const nixie::Preparation& as = net->trained.preparation;
  sizes[0] = as.channels, sizes[1] = as.height, sizes[2] = as.width;
}

const char* nixie_class_name(const nixie_net* net, int64_t index) {
  const auto& names = net->trained.class_names;
  return index >= 0 && index < static_cast<std::int64_t>(names.size()) ? names[static_cast<std::size_t>(index)].c_str()
                                                                       : nullptr;
}

int nixie_run(nixie_net* net, DLManagedTensorVersioned* images, DLManagedTensorVersioned** scores) {
  return guarded([&] {
    nixie::check(net && images && scores, "nixie_run: an argument is NULL");
    auto* given = reinterpret_cast<nixie::dlpack::Managed*>(images);
    const auto& as = net->trained.preparation;
    const auto& array = given->array;
    const nixie::Shape shape(std::vector<std::int64_t>(array.shape, array.shape + array.rank));
    nixie::check(shape.rank() == 4 && shape[1] == as.channels && shape[2] == as.height && shape[3] == as.width,
                 "nixie_run: images are ", shape, ", expected [N, ", as.channels, ", ", as.height, ", ", as.width, "]");
    const auto release = given->release;  // not before nothing can fail any more
    given->release = [](nixie::dlpack::Managed*) {};
    nixie::Tensor input;
    try {
      input = from_dlpack(given, *net->backend);
      nixie::check(input.dtype() == nixie::Dtype::u8 || input.dtype() == nixie::Dtype::f32, "nixie_run: images are ",
                   input.dtype(), ", expected u8 or f32");
      const nixie::Tensor result = net->step({{"images", input}}).at("scores");
      *scores = reinterpret_cast<DLManagedTensorVersioned*>(to_dlpack(result, *net->backend));
    } catch (...) {
      input = {};
      given->release = release;
      throw;
    }
    given->release = release;
  });
}
