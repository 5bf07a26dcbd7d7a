// Reads a page of the call log, the balance and a list of films; compiled against the reference.
import createClient from "openapi-fetch";
import type { paths } from "./reference.js";

export async function read(baseUrl: string, key: string): Promise<[string, string, string]> {
  const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${key}` } });
  const page = await client.GET("/v1/logs", { params: { query: { limit: 2 } } });
  const balance = await client.GET("/v1/key/balance");
  const films = await client.GET("/v1/videos/generations", { params: { query: { limit: 1 } } });
  if (!page.data || !balance.data || !films.data) throw new Error("an error where there was none");
  return [page.data.data[0].cost, balance.data.remaining_usd, films.data.data[0].status];
}
