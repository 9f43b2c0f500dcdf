// The newest state of the stream, in the browser's own database.

const NAME = "keras_txl";
const STORE = "session";
const KEY = "newest";

function request(mode, ask) {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open(NAME, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(STORE);
    opening.onerror = () => reject(opening.error);
    opening.onsuccess = () => {
      const database = opening.result;
      const transaction = database.transaction(STORE, mode);
      const asked = ask(transaction.objectStore(STORE));
      transaction.oncomplete = () => {
        database.close();
        resolve(asked.result);
      };
      transaction.onabort = () => {
        database.close();
        reject(transaction.error);
      };
    };
  });
}

/** Keeps a value until the next one. */
export function keep(value) {
  return request("readwrite", (store) => store.put(value, KEY));
}

/** The value kept last, or undefined. */
export function recall() {
  return request("readonly", (store) => store.get(KEY));
}

/** Keeps nothing any more. */
export function forget() {
  return request("readwrite", (store) => store.delete(KEY));
}
