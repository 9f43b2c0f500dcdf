// A stand-in for Triton's ONNX backend, which no wheel has.
//
// Triton itself plans the sequences and keeps their implicit state; this
// hands all inputs of a request, states among them, to a process of ONNX
// Runtime (onnx_backend_double.py) and what comes back to Triton: as the next
// state where the name begins with "new_", else as an output.
//
// Tensors travel as a line "NAME TYPE BYTES DIM ..." and their bytes; a line
// "." ends them.

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

// The parts of Triton's C interface that are used.
extern "C" {
struct Opaque;
Opaque* TRITONBACKEND_ModelInstanceModel(Opaque* instance, Opaque** model);
Opaque* TRITONBACKEND_ModelRepository(Opaque* model, uint32_t* kind,
                                      const char** place);
Opaque* TRITONBACKEND_RequestInputCount(Opaque* request, uint32_t* count);
Opaque* TRITONBACKEND_RequestInputByIndex(Opaque* request, uint32_t index,
                                          Opaque** input);
Opaque* TRITONBACKEND_InputProperties(Opaque* input, const char** name,
                                      uint32_t* type, const int64_t** shape,
                                      uint32_t* axes, uint64_t* bytes,
                                      uint32_t* buffers);
Opaque* TRITONBACKEND_InputBuffer(Opaque* input, uint32_t index,
                                  const void** buffer, uint64_t* bytes,
                                  uint32_t* memory, int64_t* id);
Opaque* TRITONBACKEND_ResponseNew(Opaque** response, Opaque* request);
Opaque* TRITONBACKEND_ResponseOutput(Opaque* response, Opaque** output,
                                     const char* name, uint32_t type,
                                     const int64_t* shape, uint32_t axes);
Opaque* TRITONBACKEND_OutputBuffer(Opaque* output, void** buffer,
                                   uint64_t bytes, uint32_t* memory,
                                   int64_t* id);
Opaque* TRITONBACKEND_ResponseSend(Opaque* response, uint32_t flags,
                                   Opaque* error);
Opaque* TRITONBACKEND_RequestRelease(Opaque* request, uint32_t flags);
Opaque* TRITONBACKEND_StateNew(Opaque** state, Opaque* request,
                               const char* name, uint32_t type,
                               const int64_t* shape, uint32_t axes);
Opaque* TRITONBACKEND_StateBuffer(Opaque* state, void** buffer, uint64_t bytes,
                                  uint32_t* memory, int64_t* id);
Opaque* TRITONBACKEND_StateUpdate(Opaque* state);
const char* TRITONSERVER_ErrorMessage(Opaque* error);
}

namespace {

FILE* to_child = nullptr;
FILE* from_child = nullptr;

void Check(Opaque* error) {
  if (error == nullptr) return;
  fprintf(stderr, "double: %s\n", TRITONSERVER_ErrorMessage(error));
  _exit(1);
}

void StartChild(const std::string& model) {
  int ends[2];
  socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
  if (fork() == 0) {
    dup2(ends[1], 0);
    dup2(ends[1], 1);
    close(ends[0]);
    execl(PYTHON, PYTHON, SCRIPT, model.c_str(), nullptr);
    _exit(1);
  }
  close(ends[1]);
  to_child = fdopen(ends[0], "w");
  from_child = fdopen(dup(ends[0]), "r");
}

void SendInputs(Opaque* request) {
  uint32_t count, type, axes, buffers, memory;
  uint64_t bytes, part;
  int64_t id;
  Check(TRITONBACKEND_RequestInputCount(request, &count));
  for (uint32_t i = 0; i < count; i++) {
    Opaque* input;
    const char* name;
    const int64_t* shape;
    Check(TRITONBACKEND_RequestInputByIndex(request, i, &input));
    Check(TRITONBACKEND_InputProperties(input, &name, &type, &shape, &axes,
                                        &bytes, &buffers));
    fprintf(to_child, "%s %u %lu", name, type, bytes);
    for (uint32_t axis = 0; axis < axes; axis++)
      fprintf(to_child, " %ld", shape[axis]);
    fputc('\n', to_child);
    for (uint32_t b = 0; b < buffers; b++) {
      const void* buffer;
      Check(TRITONBACKEND_InputBuffer(input, b, &buffer, &part, &memory, &id));
      fwrite(buffer, 1, part, to_child);
    }
  }
  fputs(".\n", to_child);
  fflush(to_child);
}

void ReceiveOutputs(Opaque* request, Opaque* response) {
  char line[256];
  while (fgets(line, sizeof(line), from_child) != nullptr && line[0] != '.') {
    std::istringstream words(line);
    std::string name;
    uint32_t type, memory = 0;
    uint64_t bytes;
    int64_t size, id = 0;
    std::vector<int64_t> shape;
    words >> name >> type >> bytes;
    while (words >> size) shape.push_back(size);
    std::vector<char> values(bytes);
    if (fread(values.data(), 1, bytes, from_child) != bytes) _exit(1);
    void* buffer;
    if (name.rfind("new_", 0) == 0) {
      Opaque* state;
      Check(TRITONBACKEND_StateNew(&state, request, name.c_str(), type,
                                   shape.data(), shape.size()));
      Check(TRITONBACKEND_StateBuffer(state, &buffer, bytes, &memory, &id));
      std::copy(values.begin(), values.end(), static_cast<char*>(buffer));
      Check(TRITONBACKEND_StateUpdate(state));
    } else {
      Opaque* output;
      Check(TRITONBACKEND_ResponseOutput(response, &output, name.c_str(), type,
                                         shape.data(), shape.size()));
      Check(TRITONBACKEND_OutputBuffer(output, &buffer, bytes, &memory, &id));
      std::copy(values.begin(), values.end(), static_cast<char*>(buffer));
    }
  }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) Opaque*
TRITONBACKEND_ModelInstanceExecute(Opaque* instance, Opaque** requests,
                                   const uint32_t count) {
  static std::mutex mutex;  // Triton may run several instances
  const std::lock_guard<std::mutex> alone(mutex);
  if (to_child == nullptr) {
    Opaque* model;
    const char* place;
    uint32_t kind;
    Check(TRITONBACKEND_ModelInstanceModel(instance, &model));
    Check(TRITONBACKEND_ModelRepository(model, &kind, &place));
    StartChild(std::string(place) + "/1/model.onnx");
  }
  for (uint32_t i = 0; i < count; i++) {
    Opaque* response;
    Check(TRITONBACKEND_ResponseNew(&response, requests[i]));
    SendInputs(requests[i]);
    ReceiveOutputs(requests[i], response);
    Check(TRITONBACKEND_ResponseSend(response, 1, nullptr));
    Check(TRITONBACKEND_RequestRelease(requests[i], 1));
  }
  return nullptr;
}
