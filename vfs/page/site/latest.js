/**
 * Work of which only the latest is wanted.
 */

import { aborted } from "./api.js";

/** One piece of work at a time: a new one aborts the one before. */
export class Latest {
  /** @param {function(Error)} failed called when work fails, not when it is aborted. */
  constructor(failed) {
    this.failed = failed;
    this._abort = null;
    this._timer = 0;
  }

  /**
   * Begin work.
   *
   * @param {function(AbortSignal): Promise} work
   * @param {number} [delay] ms to wait first, in which a newer one may come.
   */
  run(work, delay = 0) {
    this.stop();
    const abort = new AbortController();
    this._abort = abort;
    const begin = async () => {
      try {
        await work(abort.signal);
      } catch (error) {
        if (!aborted(error) && !abort.signal.aborted) this.failed(error);
      } finally {
        if (this._abort === abort) this._abort = null;
      }
    };
    if (delay) this._timer = setTimeout(begin, delay);
    else begin();
  }

  /** Abort what is under way. */
  stop() {
    clearTimeout(this._timer);
    this._abort?.abort();
    this._abort = null;
  }
}

/** The newest few of some values, by key. */
export class Kept {
  /** @param {number} count how many are kept. @param {number} most bytes that they may have. */
  constructor(count, most) {
    Object.assign(this, { count, most, _values: new Map(), _bytes: 0 });
  }

  get(key) {
    const value = this._values.get(key);
    if (value === undefined) return undefined;
    this._values.delete(key);
    this._values.set(key, value);
    return value;
  }

  /** Keep a value that has `data`, a typed array. */
  set(key, value) {
    this._drop(key);
    this._values.set(key, value);
    this._bytes += value.data.byteLength;
    for (const old of this._values.keys()) {
      if (this._values.size <= this.count && this._bytes <= this.most) break;
      this._drop(old);
    }
  }

  _drop(key) {
    const value = this._values.get(key);
    if (value === undefined) return;
    this._values.delete(key);
    this._bytes -= value.data.byteLength;
  }
}
