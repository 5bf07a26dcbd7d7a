// Asks the model whose name comes first where it is colder, with a tool for the weather, and prints
// what it says in the end. The gateway and its key are in the environment; `stream` streams.
import Anthropic from '@anthropic-ai/sdk';
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema';

const [model, way] = process.argv.slice(2);
const client = new Anthropic({
  baseURL: process.env.GATEWAY_URL,
  apiKey: process.env.GATEWAY_KEY,
  maxRetries: 0,
});
const weather = betaTool({
  name: 'weather',
  description: 'The weather in a city.',
  inputSchema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  run: ({ city }) => `7 degrees in ${city}`,
});
const runner = client.beta.messages.toolRunner({
  model,
  max_tokens: 500,
  messages: [{ role: 'user', content: 'Where is it colder?' }],
  tools: [weather],
  stream: way === 'stream',
});
let last;
for await (const turn of runner) {
  last = way === 'stream' ? await turn.finalMessage() : turn;
}
console.log(JSON.stringify(last.content));
