// What a scripted agent does, told by the message it gets (tests/interop/script.py). Knows nothing of the SDK: `make` builds
// the events of a release.
const PREFIX = 'script:';
// Milliseconds between two events of a `tick` step.
const TICK = 50;

// step -> the state it sets, in the words of 0.3
export const STATES = {
  work: 'working',
  ask: 'input-required',
  auth: 'auth-required',
  done: 'completed',
  fail: 'failed',
  reject: 'rejected',
  cancel: 'canceled',
};
export const DATA = { n: 7, list: [null, true, { deep: 'x' }], half: 0.5 };
export const BYTES = Buffer.from('\x00\xff'.repeat(8), 'latin1');

// Named events: one message waits for what another one sets.
class Gates {
  #gates = new Map();

  #at(name) {
    if (!this.#gates.has(name)) {
      const gate = { open: false };
      gate.opened = new Promise((resolve) => {
        gate.free = () => {
          gate.open = true;
          resolve();
        };
      });
      this.#gates.set(name, gate);
    }
    return this.#gates.get(name);
  }

  isOpen(name) {
    return this.#at(name).open;
  }

  wait(name) {
    return this.#at(name).opened;
  }

  free(name) {
    this.#at(name).free();
  }
}

const gates = new Gates();

function steps(text) {
  if (!text?.startsWith(PREFIX)) return [['echo', '']];
  return text
    .slice(PREFIX.length)
    .split(';')
    .map((step) => /^(\S+)\s*(.*)$/s.exec(step.trim()))
    .map(([, verb, rest]) => [verb, rest]);
}

// The events of one run. text: the first text of the message.
export async function* play(text, make) {
  let open = false;
  for (const [verb, rest] of steps(text)) {
    if (verb in STATES) yield make.status(STATES[verb], rest);
    else if (verb === 'open') yield make.task();
    else if (verb === 'chunk' || verb === 'last') {
      yield make.chunk(rest, open, verb === 'last');
      open = verb !== 'last';
    } else if (verb === 'data') yield make.data(rest);
    else if (verb === 'copy') yield make.copy();
    else if (verb === 'hold') await gates.wait(rest);
    else if (verb === 'tick') {
      while (!gates.isOpen(rest)) {
        yield make.status('working', '');
        await new Promise((resolve) => setTimeout(resolve, TICK));
      }
    } else if (verb === 'free') gates.free(rest);
    else if (verb === 'say') yield make.say(rest);
    else if (verb === 'echo') yield make.echo();
    else if (verb === 'raise') {
      const [reason, ...words] = rest.split(' ');
      throw make.failure(reason, words.join(' '));
    } else throw new Error(`no such step: ${verb}`);
  }
}
