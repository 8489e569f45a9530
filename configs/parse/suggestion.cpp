// A table of other frameworks' words comes before the edit distance.
#include "nixie/configs/parse/suggestion.h"

#include <algorithm>
#include <cctype>
#include <numeric>

#include "nixie/core/base/print.h"

namespace nixie {
namespace {

constexpr std::size_t kLongest = 60;       // bytes of a word for which suggestions are sought
constexpr std::size_t kShortestStart = 4;  // letters that one word must begin with to suggest the other

/// What other frameworks call a thing. Case, `_` and all before a `.` do not count.
struct OtherName {
  const char* word;
  const char* here;      ///< the known word
  const char* how = "";  ///< what to set besides
};
constexpr const char* kDepthwise = "with groups: the number of its input channels";
constexpr OtherName kOtherNames[] = {
    // layers
    {"dense", "linear"},
    {"fullyconnected", "linear"},
    {"innerproduct", "linear"},
    {"fc", "linear"},
    {"conv", "conv2d"},
    {"convolution", "conv2d"},
    {"convolution1d", "conv1d"},
    {"convolution2d", "conv2d"},
    {"convolution3d", "conv3d"},
    {"depthwiseconv", "conv2d", kDepthwise},
    {"depthwiseconv1d", "conv1d", kDepthwise},
    {"depthwiseconv2d", "conv2d", kDepthwise},
    {"depthwiseconv3d", "conv3d", kDepthwise},
    {"separableconv1d", "conv1d", "with groups: the number of its input channels, and after it another with kernel: 1"},
    {"separableconv2d", "conv2d", "with groups: the number of its input channels, and after it another with kernel: 1"},
    {"groupconv2d", "conv2d", "with groups"},
    {"pointwiseconv2d", "conv2d", "with kernel: 1"},
    {"convtranspose1d", "deconv1d"},
    {"convtranspose2d", "deconv2d"},
    {"convtranspose3d", "deconv3d"},
    {"conv1dtranspose", "deconv1d"},
    {"conv2dtranspose", "deconv2d"},
    {"conv3dtranspose", "deconv3d"},
    {"transposedconv2d", "deconv2d"},
    {"deconvolution", "deconv2d"},
    {"maxpool", "max_pool2d"},
    {"maxpooling1d", "max_pool1d"},
    {"maxpooling2d", "max_pool2d"},
    {"maxpooling3d", "max_pool3d"},
    {"avgpool", "avg_pool2d"},
    {"averagepool2d", "avg_pool2d"},
    {"averagepooling1d", "avg_pool1d"},
    {"averagepooling2d", "avg_pool2d"},
    {"averagepooling3d", "avg_pool3d"},
    {"lppool2d", "l2_pool2d"},
    {"globalaveragepooling1d", "global_avg_pool", "and after it flatten"},
    {"globalaveragepooling2d", "global_avg_pool", "and after it flatten"},
    {"globalaveragepooling3d", "global_avg_pool", "and after it flatten"},
    {"globalaveragepool", "global_avg_pool"},
    {"globalavgpool2d", "global_avg_pool"},
    {"globalmaxpooling1d", "global_max_pool", "and after it flatten"},
    {"globalmaxpooling2d", "global_max_pool", "and after it flatten"},
    {"globalmaxpooling3d", "global_max_pool", "and after it flatten"},
    {"globalmaxpool2d", "global_max_pool"},
    {"adaptivemaxpool2d", "global_max_pool", "for an output of 1 x 1"},
    {"batchnorm1d", "batch_norm"},
    {"batchnorm2d", "batch_norm"},
    {"batchnorm3d", "batch_norm"},
    {"batchnormalization", "batch_norm"},
    {"syncbatchnorm", "batch_norm"},
    {"layernormalization", "layer_norm"},
    {"groupnormalization", "group_norm"},
    {"instancenorm", "group_norm", "with groups: the number of its input channels"},
    {"instancenorm1d", "group_norm", "with groups: the number of its input channels"},
    {"instancenorm2d", "group_norm", "with groups: the number of its input channels"},
    {"instancenorm3d", "group_norm", "with groups: the number of its input channels"},
    {"instancenormalization", "group_norm", "with groups: the number of its input channels"},
    {"localresponsenorm", "lrn"},
    {"relu6", "relu_clipped", "with cut: 6"},
    {"swish", "silu"},
    {"hardtanh", "relu_clipped", "where its low end is 0"},
    {"spatialdropout2d", "dropout2d"},
    {"alphadropout", "dropout"},
    {"upsampling2d", "upsample"},
    {"upsamplingnearest2d", "upsample", "with mode: nearest"},
    {"upsamplingbilinear2d", "upsample", "with mode: bilinear"},
    {"zeropadding2d", "pad"},
    {"zeropad2d", "pad"},
    {"unflatten", "reshape"},
    {"view", "reshape"},
    {"residual", "sum", "with branches: [identity, [...]]"},
    {"add", "sum", "with branches"},
    {"concatenate", "concat", "with branches"},
    {"cat", "concat", "with branches"},
    // fields of layers
    {"filters", "out"},
    {"outchannels", "out"},
    {"outfeatures", "out"},
    {"units", "out"},
    {"kernelsize", "kernel"},
    {"kernelsize", "window"},
    {"poolsize", "window"},
    {"strides", "stride"},
    {"padding", "pad"},
    {"dilationrate", "dilation"},
    {"usebias", "bias"},
    {"countincludepad", "count_pad"},
    {"numgroups", "groups"},
    {"numembeddings", "count"},
    {"embeddingdim", "size"},
    {"negativeslope", "slope"},
    {"p", "rate"},
    // losses
    {"mse", "mean_squared"},
    {"mseloss", "mean_squared"},
    {"l2loss", "mean_squared"},
    {"meansquarederror", "mean_squared"},
    {"nll", "cross_entropy", "on outputs without log_softmax"},
    {"nllloss", "cross_entropy", "on outputs without log_softmax"},
    {"softmaxcrossentropy", "cross_entropy"},
    {"crossentropyloss", "cross_entropy"},
    {"categoricalcrossentropy", "cross_entropy", "on outputs without softmax"},
    {"sparsecategoricalcrossentropy", "cross_entropy", "on outputs without softmax"},
    {"bce", "binary_cross_entropy", "on outputs without sigmoid"},
    {"bceloss", "binary_cross_entropy", "on outputs without sigmoid"},
    {"binarycrossentropy", "binary_cross_entropy", "on outputs without sigmoid"},
    {"bcewithlogits", "binary_cross_entropy"},
    {"bcewithlogitsloss", "binary_cross_entropy"},
    {"l1", "smooth_l1", "with a small beta"},
    {"l1loss", "smooth_l1", "with a small beta"},
    {"mae", "smooth_l1", "with a small beta"},
    {"meanabsoluteerror", "smooth_l1", "with a small beta"},
    {"smoothl1loss", "smooth_l1"},
    {"kldivloss", "kl_divergence"},
    {"kldivergence", "kl_divergence"},
    // metrics
    {"top5", "top_k", "with k: 5"},
    {"topkcategoricalaccuracy", "top_k"},
    {"f1score", "f1"},
    {"jaccardindex", "iou"},
    {"meaniou", "iou"},
    // optimizers
    {"momentum", "sgd"},
    {"nesterov", "sgd", "with nesterov: true"},
    {"betas", "beta1"},
    {"epsilon", "eps"},
    {"rho", "alpha"},
    // schedules
    {"lr", "rate"},
    {"learningrate", "rate"},
    {"baselr", "rate"},
    {"gamma", "factor"},
    {"stepsize", "every"},
    {"minlr", "low"},
    {"etamin", "low"},
    {"cosineannealing", "cosine"},
    {"cosineannealinglr", "cosine"},
    {"cosinedecay", "cosine"},
    {"cosineannealingwarmrestarts", "cosine", "without restarts"},
    {"onecycle", "cosine", "with warmup: {epochs: ...}"},
    {"onecyclelr", "cosine", "with warmup: {epochs: ...}"},
    {"steplr", "step"},
    {"multisteplr", "multistep"},
    {"piecewiseconstantdecay", "multistep"},
    {"exponentiallr", "exponential"},
    {"exponentialdecay", "exponential"},
    {"linear", "polynomial", "with power: 1"},
    {"linearlr", "polynomial", "with power: 1"},
    {"poly", "polynomial"},
    {"polynomiallr", "polynomial"},
    {"polynomialdecay", "polynomial"},
    {"reduceonplateau", "plateau"},
    {"reducelronplateau", "plateau"},
    // the rest of a configuration
    {"gpu", "cuda"},
    {"float32", "fp32"},
    {"float16", "fp16"},
    {"half", "fp16"},
    {"mixed", "fp16"},
    {"amp", "fp16"},
    {"bfloat16", "bf16"},
    {"batchsize", "batch"},
    {"maxepochs", "epochs"},
    {"numepochs", "epochs"},
    {"nepochs", "epochs"},
    {"maxsteps", "steps"},
    {"maxiter", "steps"},
    {"iterations", "steps"},
    {"network", "model"},
    {"arch", "model"},
    {"architecture", "model"},
    {"criterion", "loss"},
    {"scheduler", "schedule"},
    {"lrscheduler", "schedule"},
    {"lrschedule", "schedule"},
    {"pretrained", "init_from", "with a file of weights"},
    {"weights", "init_from", "with a file of weights"},
    {"device", "backend"},
    {"accelerator", "backend"},
    {"amp", "precision", "with fp16 or bf16"},
    {"earlystopping", "patience"},
    {"monitor", "best_by"},
    {"savetopk", "keep"},
    {"gradclip", "clip_norm"},
    {"gradientclipval", "clip_norm"},
    {"clipgradnorm", "clip_norm"},
    {"clipnorm", "clip_norm"},
    {"maxgradnorm", "clip_norm"},
    {"accumulategradbatches", "accumulate"},
    {"gradaccum", "accumulate"},
    {"gradientaccumulationsteps", "accumulate"},
    {"modelema", "ema"},
    {"randomseed", "seed"},
    {"imagenet", "image_folder"},
    {"imagefolder", "image_folder"},
};

/// What has no word here among those that stand beside `beside`; with "", wherever the word is not known.
struct Absent {
  const char* word;
  const char* beside;
  const char* sentence;
};
constexpr const char* kRate = "the learning rate stands under schedule, as {constant: {rate: 0.01}}";
constexpr const char* kBatch = "the batch stands with the dataset, as data: {glyphs: {batch: 128}}";
constexpr const char* kPath =
    "the path stands with the dataset, as {image_folder: {path: photos}}; --data SOURCE sets both";
constexpr const char* kInferred = "input sizes are found from what comes before";
constexpr const char* kRecurrent = "there are no recurrent layers";
constexpr const char* kAttention = "there are no attention layers";
constexpr const char* kLikeAdam = "there is none; the nearest are adam and adamw";
constexpr Absent kAbsent[] = {
    {"lr", "", kRate},
    {"learningrate", "", kRate},
    {"rate", "", kRate},
    {"batch", "", kBatch},
    {"batchsize", "", kBatch},
    {"path", "image_folder", kPath},
    {"path", "data", kPath},
    {"datapath", "data", kPath},
    {"datadir", "data", kPath},
    {"numworkers", "loader", "the threads that decode are loader.threads"},
    {"workers", "loader", "the threads that decode are loader.threads"},
    {"inchannels", "out", kInferred},
    {"infeatures", "out", kInferred},
    {"inputshape", "out", kInferred},
    {"inputdim", "out", kInferred},
    {"numfeatures", "affine", kInferred},
    {"activation", "out", "an activation is the next layer, such as relu"},
    {"rnn", "conv2d", kRecurrent},
    {"lstm", "conv2d", kRecurrent},
    {"gru", "conv2d", kRecurrent},
    {"simplernn", "conv2d", kRecurrent},
    {"bidirectional", "conv2d", kRecurrent},
    {"attention", "conv2d", kAttention},
    {"multiheadattention", "conv2d", kAttention},
    {"transformer", "conv2d", kAttention},
    {"transformerencoder", "conv2d", kAttention},
    {"transformerencoderlayer", "conv2d", kAttention},
    {"mish", "conv2d", "there is none; the nearest are silu and hard_swish"},
    {"selu", "conv2d", "there is none; the nearest is elu"},
    {"celu", "conv2d", "there is none; the nearest is elu"},
    {"hardsigmoid", "conv2d", "there is none; the nearest is sigmoid"},
    {"softsign", "conv2d", "there is none; the nearest is tanh"},
    {"logsoftmax", "conv2d", "there is none: the loss cross_entropy takes outputs without it"},
    {"input", "conv2d", "a net has no input layer: its input is what the data gives"},
    {"inputlayer", "conv2d", "a net has no input layer: its input is what the data gives"},
    {"lion", "adamw", kLikeAdam},
    {"lamb", "adamw", kLikeAdam},
    {"lars", "adamw", "there is none; the nearest is sgd"},
    {"nadam", "adamw", kLikeAdam},
    {"radam", "adamw", kLikeAdam},
    {"adamax", "adamw", kLikeAdam},
    {"amsgrad", "adamw", kLikeAdam},
    {"adafactor", "adamw", kLikeAdam},
    {"muon", "adamw", kLikeAdam},
    {"lbfgs", "adamw", kLikeAdam},
    {"ctc", "cross_entropy", "there is none"},
    {"ctcloss", "cross_entropy", "there is none"},
    {"triplet", "cross_entropy", "there is none"},
    {"tripletmarginloss", "cross_entropy", "there is none"},
    {"cyclic", "cosine", "there is none; the nearest is cosine"},
    {"cycliclr", "cosine", "there is none; the nearest is cosine"},
    {"lambdalr", "cosine", "there is none; multistep takes any factors"},
};

std::string lower(std::string word) {
  std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return std::tolower(c); });
  return word;
}

/// `nn.Conv2d` and `conv_2d` are `conv2d`.
std::string plain(const std::string& word) {
  const std::size_t dot = word.rfind('.');
  std::string text = lower(dot == std::string::npos ? word : word.substr(dot + 1));
  std::erase_if(text, [](char c) { return c == '_' || c == '-' || c == ' '; });
  return text;
}

bool holds(const std::vector<std::string>& known, const std::string& word) {
  return std::find(known.begin(), known.end(), word) != known.end();
}

std::string question(const std::string& word) { return fmt::format("; did you mean \"{}\"?", word); }

/// Of another framework's word; "" where the tables have none.
std::string of_tables(const std::string& word, const std::vector<std::string>& known) {
  const std::string text = plain(word);
  for (const auto& [other, here, how] : kOtherNames)
    if (text == other && holds(known, here))
      return *how == '\0' ? question(here) : fmt::format("; it is \"{}\" {}", here, how);
  for (const std::string& here : known)
    if (text == plain(here)) return question(here);
  for (const auto& [other, beside, sentence] : kAbsent)
    if (text == other && (*beside == '\0' || holds(known, beside))) return fmt::format("; {}", sentence);
  return {};
}

/// Levenshtein's edit distance, a swap of neighbours counted as one edit.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> before_last, last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = last;
    last = row;
  }
  return last.back();
}

}  // namespace

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
  if (word.size() > kLongest) return {};
  if (const std::string told = of_tables(word, known); !told.empty()) return told;
  std::size_t nearest = std::max<std::size_t>(1, word.size() / 3) + 1;
  std::string suggestion;
  for (const std::string& candidate : known) {
    if (const std::string part = lower(word); std::min(part.size(), candidate.size()) >= kShortestStart &&
                                              (part.starts_with(candidate) || candidate.starts_with(part)))
      suggestion = candidate;  // unless another is nearer
  }
  for (const std::string& candidate : known) {
    const std::size_t distance = std::min(edit_distance(word, candidate), edit_distance(lower(word), candidate));
    if (distance >= nearest) continue;
    nearest = distance;
    suggestion = candidate;
  }
  return suggestion.empty() ? suggestion : question(suggestion);
}

}  // namespace nixie
