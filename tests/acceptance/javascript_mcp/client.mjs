// Uses every tool of the gateway's MCP server and prints what came of it as one JSON value.
// `sdk` is the library up to protocol 2025-11-25, `client` the one after it, which takes `auto`, the
// revision to pin, or a revision with a handshake. The gateway and its key are in the environment.
const [library, way] = process.argv.slice(2);
const isOld = library === 'sdk';
const { Client, StreamableHTTPClientTransport } = isOld
  ? {
      ...(await import('@modelcontextprotocol/sdk/client/index.js')),
      ...(await import('@modelcontextprotocol/sdk/client/streamableHttp.js')),
    }
  : await import('@modelcontextprotocol/client');

function options() {
  if (isOld) return {};
  if (way === 'auto') return { versionNegotiation: { mode: 'auto' } };
  if (way === '2026-07-28') return { versionNegotiation: { mode: { pin: way } } };
  return { supportedProtocolVersions: [way] };
}

const client = new Client({ name: 'tests', version: '1' }, options());
const transport = new StreamableHTTPClientTransport(new URL(`${process.env.GATEWAY_URL}/mcp`), {
  requestInit: { headers: { Authorization: `Bearer ${process.env.GATEWAY_KEY}` } },
});
await client.connect(transport);
const { tools } = await client.listTools();
const calls = {
  search_wiki: { q: 'otters' },
  read_page: { id: 'Otters' },
  read_pages: { ids: ['zh', 'nothing'] },
  list_by_tag: { tag: 'animals' },
  backlinks: { id: 'Otters' },
  get_source: { id: 'Otters' },
};
const found = {};
for (const [name, args] of Object.entries(calls)) {
  // The library checks it against the tool's output schema.
  found[name] = (await client.callTool({ name, arguments: args })).structuredContent;
}
const failed = await client.callTool({ name: 'read_page', arguments: { id: 'nothing' } });
const refused = await client.callTool({ name: 'nothing', arguments: {} }).catch((error) => error);
console.log(
  JSON.stringify({
    version: isOld ? transport.protocolVersion : client.getNegotiatedProtocolVersion(),
    server: client.getServerVersion().name,
    instructions: client.getInstructions(),
    tools: tools.map((tool) => tool.name),
    found,
    failed: failed.isError,
    refused: refused.code,
  }),
);
await client.close();
