// Nets: the models by name. Each is an options struct whose `layers` is the whole definition; parameters have
// torchvision's names if it has the net.
#pragma once

#include "nixie/layers/registry.h"

namespace nixie {

/// A net's last layer: starts with small weights, so that the first loss is near chance level, log(classes).
inline Linear output_layer(int classes) { return {.out = classes, .init = Init::normal(0.01f)}; }

/// Flatten, then linear layers with ReLU between them. Names: 1.weight, 3.weight, ...
struct Mlp {
  int classes = 10;
  std::vector<int> hidden = {512, 256};

  static constexpr const char* name = "mlp";
  static constexpr auto fields() {
    return field_list(field("classes", &Mlp::classes, "number of outputs", {1}),
                      field("hidden", &Mlp::hidden, "sizes of the hidden layers", {1}));
  }
  Sequential layers() const;
};

/// Two 5x5 convolutions (32, 64 channels) with pooling, a hidden layer of 512: for 28x28 images.
struct Lenet {
  int classes = 10;

  static constexpr const char* name = "lenet";
  static constexpr auto fields() { return field_list(field("classes", &Lenet::classes, "number of outputs", {1})); }
  Sequential layers() const;
};

/// AlexNet in its single-column form ("One weird trick", Krizhevsky 2014), for 3x224x224 images.
struct Alexnet {
  int classes = 1000;
  double dropout = 0.5;

  static constexpr const char* name = "alexnet";
  static constexpr auto fields() {
    return field_list(field("classes", &Alexnet::classes, "number of outputs", {1}),
                      field("dropout", &Alexnet::dropout, "dropout rate before the hidden linear layers", {0, 1}));
  }
  Sequential layers() const;
};

/// OverFeat, the fast model (Sermanet et al. 2013), for 3x231x231 images.
struct Overfeat {
  int classes = 1000;
  double dropout = 0.5;

  static constexpr const char* name = "overfeat";
  static constexpr auto fields() {
    return field_list(field("classes", &Overfeat::classes, "number of outputs", {1}),
                      field("dropout", &Overfeat::dropout, "dropout rate before the hidden linear layers", {0, 1}));
  }
  Sequential layers() const;
};

/// VGG with 11 (A), 13 (B), 16 (D) or 19 (E) layers (Simonyan and Zisserman 2014), with batch norm after every
/// convolution or without, for 3x224x224 images.
template <int depth, bool batch_norm = false>
struct Vgg {
  static_assert(depth == 11 || depth == 13 || depth == 16 || depth == 19);
  int classes = 1000;
  double dropout = 0.5;

  static constexpr const char* name = batch_norm    ? depth == 11   ? "vgg11_bn"
                                                      : depth == 13 ? "vgg13_bn"
                                                      : depth == 16 ? "vgg16_bn"
                                                                    : "vgg19_bn"
                                      : depth == 11 ? "vgg11"
                                      : depth == 13 ? "vgg13"
                                      : depth == 16 ? "vgg16"
                                                    : "vgg19";
  static constexpr auto fields() {
    return field_list(field("classes", &Vgg::classes, "number of outputs", {1}),
                      field("dropout", &Vgg::dropout, "dropout rate after the hidden linear layers", {0, 1}));
  }
  Sequential layers() const;
};

/// GoogLeNet v1 with biases, without batch norm, LRN and auxiliary heads (Szegedy et al. 2014), for 3x224x224 images.
struct Googlenet {
  int classes = 1000;
  double dropout = 0;

  static constexpr const char* name = "googlenet";
  static constexpr auto fields() {
    return field_list(field("classes", &Googlenet::classes, "number of outputs", {1}),
                      field("dropout", &Googlenet::dropout, "dropout rate before the last layer", {0, 1}));
  }
  Sequential layers() const;
};

/// GoogLeNet with batch norm as torchvision defines it, without auxiliary heads, for 3x224x224 images.
struct GooglenetBn {
  int classes = 1000;
  double dropout = 0.2;

  static constexpr const char* name = "googlenet_bn";
  static constexpr auto fields() {
    return field_list(field("classes", &GooglenetBn::classes, "number of outputs", {1}),
                      field("dropout", &GooglenetBn::dropout, "dropout rate before the last layer", {0, 1}));
  }
  Sequential layers() const;
};

/// Inception v3 (Szegedy et al. 2015) without its auxiliary head, for 3x299x299 images.
struct InceptionV3 {
  int classes = 1000;
  double dropout = 0.5;

  static constexpr const char* name = "inception_v3";
  static constexpr auto fields() {
    return field_list(field("classes", &InceptionV3::classes, "number of outputs", {1}),
                      field("dropout", &InceptionV3::dropout, "dropout rate before the last layer", {0, 1}));
  }
  Sequential layers() const;
};

/// Residual net of 18, 34, 50 or 101 layers (He et al. 2015; from 50 on with the stride in the 3x3), for 3x224x224.
template <int depth>
struct Resnet {
  static_assert(depth == 18 || depth == 34 || depth == 50 || depth == 101);
  int classes = 1000;

  static constexpr const char* name = depth == 18   ? "resnet18"
                                      : depth == 34 ? "resnet34"
                                      : depth == 50 ? "resnet50"
                                                    : "resnet101";
  static constexpr auto fields() { return field_list(field("classes", &Resnet::classes, "number of outputs", {1})); }
  Sequential layers() const;
};

/// DenseNet with 121 layers and growth 32 (Huang et al. 2016), for 3x224x224 images.
struct Densenet121 {
  int classes = 1000;

  static constexpr const char* name = "densenet121";
  static constexpr auto fields() {
    return field_list(field("classes", &Densenet121::classes, "number of outputs", {1}));
  }
  Sequential layers() const;
};

/// MobileNet v1 (Howard et al. 2017) of full width, for 3x224x224 images.
struct MobilenetV1 {
  int classes = 1000;
  double dropout = 0;

  static constexpr const char* name = "mobilenet_v1";
  static constexpr auto fields() {
    return field_list(field("classes", &MobilenetV1::classes, "number of outputs", {1}),
                      field("dropout", &MobilenetV1::dropout, "dropout rate before the last layer", {0, 1}));
  }
  Sequential layers() const;
};

/// MobileNet v2 (Sandler et al. 2018) of full width, for 3x224x224 images.
struct MobilenetV2 {
  int classes = 1000;
  double dropout = 0.2;

  static constexpr const char* name = "mobilenet_v2";
  static constexpr auto fields() {
    return field_list(field("classes", &MobilenetV2::classes, "number of outputs", {1}),
                      field("dropout", &MobilenetV2::dropout, "dropout rate before the last layer", {0, 1}));
  }
  Sequential layers() const;
};

/// MobileNet v3 (Howard et al. 2019), large or small, for 3x224x224 images.
template <bool large>
struct MobilenetV3 {
  int classes = 1000;
  double dropout = 0.2;

  static constexpr const char* name = large ? "mobilenet_v3_large" : "mobilenet_v3_small";
  static constexpr auto fields() {
    return field_list(field("classes", &MobilenetV3::classes, "number of outputs", {1}),
                      field("dropout", &MobilenetV3::dropout, "dropout rate before the last layer", {0, 1}));
  }
  Sequential layers() const;
};

/// EfficientNet-B0 (Tan and Le 2019), for 3x224x224 images.
struct EfficientnetB0 {
  int classes = 1000;
  double dropout = 0.2, drop_path = 0.2;

  static constexpr const char* name = "efficientnet_b0";
  static constexpr auto fields() {
    return field_list(
        field("classes", &EfficientnetB0::classes, "number of outputs", {1}),
        field("dropout", &EfficientnetB0::dropout, "dropout rate before the last layer", {0, 1}),
        field("drop_path", &EfficientnetB0::drop_path, "drop rate of branches, reached behind the last block", {0, 1}));
  }
  Sequential layers() const;
};

/// ConvNeXt-T (Liu et al. 2022), for 3x224x224 images.
struct ConvnextTiny {
  int classes = 1000;
  double drop_path = 0.1;

  static constexpr const char* name = "convnext_tiny";
  static constexpr auto fields() {
    return field_list(field("classes", &ConvnextTiny::classes, "number of outputs", {1}),
                      field("drop_path", &ConvnextTiny::drop_path, "drop rate of the last block's branch", {0, 1}));
  }
  Sequential layers() const;
};

/// RegNet of 400 MFLOP (Radosavovic et al. 2020), X or, with squeeze and excitation, Y, for 3x224x224 images.
template <bool squeezes>
struct Regnet400 {
  int classes = 1000;

  static constexpr const char* name = squeezes ? "regnet_y_400mf" : "regnet_x_400mf";
  static constexpr auto fields() { return field_list(field("classes", &Regnet400::classes, "number of outputs", {1})); }
  Sequential layers() const;
};

/// SqueezeNet 1.1 (Iandola et al. 2016), for 3x224x224 images.
struct Squeezenet {
  int classes = 1000;
  double dropout = 0.5;

  static constexpr const char* name = "squeezenet1_1";
  static constexpr auto fields() {
    return field_list(field("classes", &Squeezenet::classes, "number of outputs", {1}),
                      field("dropout", &Squeezenet::dropout, "dropout rate before the last layer", {0, 1}));
  }
  Sequential layers() const;
};

}  // namespace nixie
