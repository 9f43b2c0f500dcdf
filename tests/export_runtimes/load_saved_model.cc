// Runs signatures through the loader that TensorFlow Serving uses.
//
//     load_saved_model FOLDER < segments
//
// Each line of the input is a segment: number of the session, rows, length, the
// token ids and the length of each row. Prints the logits, the memory and its
// lengths, which it feeds back to the session's next segment. Then it prints
// what the graph says to bad requests.

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/cc/saved_model/loader.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/public/session_options.h"

using tensorflow::SavedModelBundle;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using Tensors = std::vector<std::pair<std::string, Tensor>>;

static SavedModelBundle bundle;

static tensorflow::Status Run(const std::string& name, const Tensors& inputs,
                              const std::vector<std::string>& outputs,
                              std::vector<Tensor>* results) {
  const auto& signature = bundle.meta_graph_def.signature_def().at(name);
  Tensors feeds;
  for (const auto& [key, value] : inputs) {
    feeds.emplace_back(signature.inputs().at(key).name(), value);
  }
  std::vector<std::string> fetches;
  for (const auto& key : outputs) {
    fetches.push_back(signature.outputs().at(key).name());
  }
  return bundle.session->Run(feeds, fetches, {}, results);
}

static Tensor Ints(TensorShape shape, std::vector<int> values) {
  Tensor tensor(tensorflow::DT_INT32, shape);
  for (size_t i = 0; i < values.size(); ++i) {
    tensor.flat<int>()(i) = values[i];
  }
  return tensor;
}

static Tensor Zeros(TensorShape shape) {
  Tensor tensor(tensorflow::DT_FLOAT, shape);
  tensor.flat<float>().setZero();
  return tensor;
}

static Tensors Step(Tensor memory, int length) {
  return {{"token_ids", Ints({2, 3}, {1, 2, 3, 4, 5, 6})},
          {"token_length", Ints({2}, {3, 2})},
          {"memory", std::move(memory)},
          {"memory_length", Ints({2}, {length, 0})}};
}

static std::vector<int> Read(int count) {
  std::vector<int> numbers(count);
  for (int& number : numbers) {
    if (std::scanf("%d", &number) != 1) std::exit(1);
  }
  return numbers;
}

template <typename T>
static void Print(const Tensor& tensor) {
  const auto flat = tensor.flat<T>();
  for (int i = 0; i < flat.size(); ++i) std::printf("%.9g ", double(flat(i)));
  std::printf("\n");
}

static bool ReadStreams() {
  std::map<int, std::vector<Tensor>> memories;  // of each session
  std::vector<Tensor> results;
  int session, rows, length;
  while (std::scanf("%d %d %d", &session, &rows, &length) == 3) {
    const Tensor ids = Ints({rows, length}, Read(rows * length));
    const Tensor lengths = Ints({rows}, Read(rows));
    auto& memory = memories[session];
    if (memory.empty() &&
        !Run("initial_memory", {{"rows", lengths}},
             {"memory", "memory_length"}, &memory).ok()) {
      return false;
    }
    const Tensors inputs = {{"token_ids", ids},
                            {"token_length", lengths},
                            {"memory", memory[0]},
                            {"memory_length", memory[1]}};
    if (!Run("step", inputs, {"logits", "new_memory", "new_memory_length"},
             &results).ok()) {
      return false;
    }
    memory = {results[1], results[2]};
    Print<float>(results[0]);
    Print<float>(results[1]);
    Print<int>(results[2]);
  }
  return true;
}

int main(int, char** arguments) {
  const auto status = tensorflow::LoadSavedModel(
      tensorflow::SessionOptions(), tensorflow::RunOptions(), arguments[1],
      {"serve"}, &bundle);
  if (!status.ok()) {
    std::printf("%s\n", std::string(status.message()).c_str());
    return 1;
  }
  if (!ReadStreams()) return 1;
  std::vector<Tensor> results;
  auto ran = Run("initial_memory", {{"rows", Ints({2}, {1, 1})}},
                 {"memory", "memory_length"}, &results);
  const Tensor memory = results.at(0);
  const auto shape = memory.shape();
  Tensor shorter = Zeros({2, shape.dim_size(1), shape.dim_size(2) - 1,
                          shape.dim_size(3)});
  Tensor rows = Zeros({3, shape.dim_size(1), shape.dim_size(2),
                       shape.dim_size(3)});
  Tensors strange = Step(memory, 0);
  strange[0].second = Ints({2, 3}, {1, 2, 3, 4, 5 << 20, 6});
  Tensors wide = Step(memory, 0);
  wide[0].second = Zeros({2, 3});
  Tensors bad[] = {Step(shorter, 0), Step(rows, 0), Step(memory, 99),
                   strange};
  for (const auto& request : bad) {
    ran = Run("step", request, {"logits"}, &results);
    std::string told(ran.message());
    for (char& c : told) c = c == '\n' ? ' ' : c;
    std::printf("%s\n", told.c_str());
  }
  ran = Run("step", wide, {"logits"}, &results);
  std::printf("%s\n", ran.ok() ? "accepted" : "refused");
  ran = Run("step", Step(memory, 0), {"logits"}, &results);
  std::printf("%s\n", ran.ok() ? "good again" : "broken");
  return 0;
}
