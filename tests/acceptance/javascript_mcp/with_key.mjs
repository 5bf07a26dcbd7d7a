// Preloaded before a program that can send no headers of ours: it sends the key with every request.
const plain = globalThis.fetch;
globalThis.fetch = (input, init = {}) => {
  const headers = new Headers(init.headers);
  headers.set('Authorization', `Bearer ${process.env.GATEWAY_KEY}`);
  return plain(input, { ...init, headers });
};
