// Endless text from an exported Transformer-XL, in Node.js and in browsers.
//
// Runs what `keras-txl export onnx MODEL --flavour kv_ring` wrote, on
// onnxruntime-node or onnxruntime-web, whichever is handed in. A stream saved
// here goes on in the Python driver, and back. Same seed, same text.
//
// Axes: B = 1 row, V vocabulary, M memory slots, N heads, H head width.

const FORMAT = 1;
const MAGIC = "keras_txl memory\n";

/** What a stream remembers: a ring of keys and values, and where it is. */
export class Memory {
  /**
   * @param {number} size numbers in the ring of keys of one layer
   * @param {number} count rings: keys and values of each layer
   * @param {number} seed of the random numbers
   */
  constructor(size, count, seed) {
    this.position = 0; // tokens read so far
    this.length = 0; // slots that hold a token
    this.ring = Array.from({ length: count }, () => new Float32Array(size));
    this.unread = []; // ids that were said but not read yet
    this.random = seed >>> 0;
  }

  /** A number from [0, 1), the same in every driver (mulberry32). */
  nextRandom() {
    this.random = (this.random + 0x6d2b79f5) >>> 0;
    let mixed = this.random;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }
}

/** A model in ONNX Runtime. */
export class TransformerXL {
  /**
   * Loads a model.
   *
   * @param {object} ort onnxruntime-node or onnxruntime-web
   * @param {(name: string) => Promise<Uint8Array>} readFile of the folder
   * @param {object} options of `InferenceSession.create`
   */
  static async load(ort, readFile, options = {}) {
    const manifest = parseManifest(await readFile("manifest.json").catch((error) => error));
    const files = {};
    for (const [name, wanted] of Object.entries(manifest.files)) {
      if (!name.startsWith("model.onnx")) continue;
      files[name] = await readFile(name).catch(() => new Uint8Array());
      await checkFile(name, files[name], wanted);
    }
    const model = files["model.onnx"];
    delete files["model.onnx"];
    const externalData = Object.entries(files).map(([path, data]) => ({ path, data }));
    const session = await ort.InferenceSession.create(model, {
      ...options,
      ...(externalData.length ? { externalData } : {}),
    });
    return new TransformerXL(ort, manifest, session);
  }

  constructor(ort, manifest, session) {
    this.ort = ort;
    this.manifest = manifest;
    this.session = session;
    const model = manifest.model;
    this.vocabularySize = model.vocabulary_size;
    this.memoryLength = model.memory_length;
    this.slots = [1, model.num_heads, model.memory_length, model.head_dim];
    this.names = Array.from({ length: model.num_layers }, (_, layer) => [
      `${layer}.key`,
      `${layer}.value`,
    ]).flat();
    this.stops = new Set(manifest.sampling.stop_token_ids);
  }

  /** The memory of a stream that has read nothing. */
  newMemory(seed = 0) {
    const size = this.slots.reduce((a, b) => a * b);
    return new Memory(size, this.names.length, seed);
  }

  /** Bytes of the memory of a stream, which never grow. */
  get memoryBytes() {
    return 4 * this.names.length * this.slots.reduce((a, b) => a * b);
  }

  /**
   * Reads tokens, one after the other, and advances the memory.
   *
   * @returns {Promise<Float32Array>} logits (V) of the token that follows
   */
  async read(tokenIds, memory) {
    const wrong = tokenIds.filter(
      (id) => !Number.isInteger(id) || id < 0 || id >= this.vocabularySize,
    );
    if (wrong.length || !tokenIds.length) {
      throw new RangeError(
        `Token ids must be from 0 to ${this.vocabularySize - 1}, and at ` +
          `least one. Received: ${wrong.length ? wrong[0] : "none"}.`,
      );
    }
    const { Tensor } = this.ort;
    const int64 = (value, dims) =>
      new Tensor("int64", BigInt64Array.of(BigInt(value)), dims);
    const [, heads, slots, width] = this.slots;
    let logits;
    for (const id of tokenIds) {
      const feeds = {
        input_ids: int64(id, [1, 1]),
        position: int64(memory.position, [1]),
        length: int64(memory.length, [1]),
      };
      this.names.forEach((name, index) => {
        feeds[`ring.${name}`] = new Tensor("float32", memory.ring[index], this.slots);
      });
      const outputs = await this.session.run(feeds);
      const slot = memory.position % slots;
      this.names.forEach((name, index) => {
        const row = outputs[`new.${name}`].data; // (1, N, 1, H)
        for (let head = 0; head < heads; head++) {
          memory.ring[index].set(
            row.subarray(head * width, (head + 1) * width),
            (head * slots + slot) * width,
          );
        }
      });
      logits = outputs.logits.data;
      memory.position += 1;
      memory.length = Math.min(memory.length + 1, slots);
    }
    return logits;
  }

  /**
   * Reads a prompt and says one token after the other, for ever.
   *
   * The memory may be saved between any two tokens.
   *
   * @param {number[]} promptIds may be empty if the memory has an unread token
   * @param {Memory} memory advances
   * @param {object} settings `maxNewTokens`, `temperature` (0: the most likely
   *   token), `topK` (0: all), `topP`
   */
  async *generateIds(promptIds, memory, settings = {}) {
    const { maxNewTokens = Infinity } = settings;
    memory.unread = [...memory.unread, ...promptIds];
    for (let said = 0; said < maxNewTokens; said++) {
      const logits = await this.read(memory.unread, memory);
      const id = draw(logits, memory, settings);
      memory.unread = [id];
      if (this.stops.has(id)) return;
      yield id;
    }
  }

  /** The same with text. */
  async *generate(prompt, memory, settings = {}) {
    const decoder = new TextDecoder();
    for await (const id of this.generateIds(this.encode(prompt), memory, settings)) {
      const text = decoder.decode(Uint8Array.of(id), { stream: true });
      if (text) yield text;
    }
    const rest = decoder.decode();
    if (rest) yield rest;
  }

  /** Ids of a text. */
  encode(text) {
    const kind = this.manifest.tokenizer?.kind;
    if (kind !== "bytes") {
      throw new TypeError(
        `Text needs a model over bytes. Received: a model with tokenizer ` +
          `${kind}. Use generateIds with ids.`,
      );
    }
    return [...new TextEncoder().encode(text)];
  }

  /** A memory as bytes, for a file or a database. */
  saveMemory(memory) {
    const header = new TextEncoder().encode(
      MAGIC +
        JSON.stringify({
          format: FORMAT,
          weights: this.manifest.weights,
          shape: this.slots,
          count: this.names.length,
          position: memory.position,
          length: memory.length,
          unread: memory.unread,
          random: memory.random,
        }) +
        "\n",
    );
    const bytes = new Uint8Array(header.length + this.memoryBytes);
    bytes.set(header);
    let place = header.length;
    for (const rows of memory.ring) {
      bytes.set(new Uint8Array(rows.buffer, rows.byteOffset, rows.byteLength), place);
      place += rows.byteLength;
    }
    return bytes;
  }

  /** A memory of this model from its bytes. */
  loadMemory(bytes) {
    const start = MAGIC.length;
    const end = bytes.indexOf(10, start);
    const text = new TextDecoder().decode(bytes.subarray(0, Math.max(end, 0)));
    let header;
    try {
      if (!text.startsWith(MAGIC)) throw new Error("no memory file");
      header = JSON.parse(text.slice(start));
      const size = 4 * header.count * header.shape.reduce((a, b) => a * b);
      const numbers = [header.position, header.length, header.random, ...header.unread];
      if (!numbers.every(Number.isInteger)) throw new Error("numbers are missing");
      if (header.format !== FORMAT || bytes.length - end - 1 !== size) {
        throw new Error("cut short or of another format");
      }
    } catch (error) {
      throw new Error(
        `The memory file is damaged. Received: ${error.message}. Save it ` +
          "again, or begin without it.",
      );
    }
    if (
      header.weights !== this.manifest.weights ||
      header.count !== this.names.length ||
      header.shape.join() !== this.slots.join()
    ) {
      throw new Error(
        "The memory belongs to another model. Received: weights " +
          `${header.weights}. Use the model that wrote it, or begin without it.`,
      );
    }
    const memory = this.newMemory(header.random);
    memory.position = header.position;
    memory.length = header.length;
    memory.unread = header.unread;
    const data = new Uint8Array(this.memoryBytes); // aligned, not a pool
    data.set(bytes.subarray(end + 1));
    memory.ring.forEach((rows, index) => {
      rows.set(new Float32Array(data.buffer, index * rows.byteLength, rows.length));
    });
    return memory;
  }
}

/** One token id by the rules of `generateIds`. */
export function draw(logits, memory, { temperature = 1, topK = 0, topP = 1 }) {
  if (!(temperature >= 0 && topK >= 0 && topP > 0 && topP <= 1)) {
    throw new RangeError(
      "temperature and topK must be at least 0, topP from (0, 1]. Received: " +
        `temperature=${temperature}, topK=${topK}, topP=${topP}.`,
    );
  }
  if (temperature === 0) {
    return logits.reduce((best, value, id) => (value > logits[best] ? id : best), 0);
  }
  let order = Array.from(logits.keys()).sort((a, b) => logits[b] - logits[a] || a - b);
  if (topK) order = order.slice(0, topK);
  const highest = logits[order[0]] / temperature;
  let sum = 0;
  const sums = order.map((id) => (sum += Math.exp(logits[id] / temperature - highest)));
  const kept = sums.findIndex((value) => value >= topP * sum);
  const last = kept < 0 ? sums.length - 1 : kept;
  const aim = memory.nextRandom() * sums[last];
  const place = sums.findIndex((value) => value > aim);
  return order[place < 0 ? last : Math.min(place, last)];
}

function parseManifest(bytes) {
  let manifest;
  try {
    if (bytes instanceof Error) throw bytes;
    manifest = JSON.parse(new TextDecoder().decode(bytes));
    if (!manifest?.files?.["model.onnx"]) throw new Error("a file that names no model.onnx");
  } catch (error) {
    throw new Error(
      `The model folder must hold a manifest.json. Received: ${error.message}. ` +
        "Export with: keras-txl export onnx MODEL --flavour kv_ring --output FOLDER",
    );
  }
  const found = [manifest.format, manifest.target, manifest.flavour].join();
  if (found !== `${FORMAT},onnx,kv_ring`) {
    throw new Error(
      `This driver runs the flavour kv_ring of format 1. Received: ${found}. ` +
        "Export with --flavour kv_ring.",
    );
  }
  return manifest;
}

async function checkFile(name, bytes, wanted) {
  let whole = bytes.length === wanted.bytes;
  if (whole && globalThis.crypto?.subtle) {
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
    const hex = [...digest].map((byte) => byte.toString(16).padStart(2, "0"));
    whole = hex.join("") === wanted.sha256;
  }
  if (!whole) {
    throw new Error(
      `${name} must be as it was exported. Received: a file that is missing, ` +
        "cut short or another. Copy the folder again.",
    );
  }
}
