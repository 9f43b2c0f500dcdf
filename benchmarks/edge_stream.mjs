// A stream of the driver in JavaScript, in bursts: for Node.js and browsers.

export class Stream {
  static async open(ort, TransformerXL, readFile, threads, prompt) {
    const stream = new Stream();
    const options = { intraOpNumThreads: threads };
    stream.model = await TransformerXL.load(ort, readFile, options);
    stream.memory = stream.model.newMemory();
    stream.logits = await stream.model.read(prompt, stream.memory);
    stream.said = [];
    return stream;
  }

  /** Says the most likely token and reads it. */
  async step() {
    let best = 0;
    this.logits.forEach((logit, id) => (best = logit > this.logits[best] ? id : best));
    this.said.push(best);
    this.logits = await this.model.read([best], this.memory);
  }

  /** Seconds of each step, for some seconds. */
  async burst(seconds) {
    const samples = [];
    const end = performance.now() + 1000 * seconds;
    while (samples.length < 2 || performance.now() < end) {
      const begin = performance.now();
      await this.step();
      samples.push((performance.now() - begin) / 1000);
    }
    return samples;
  }
}
