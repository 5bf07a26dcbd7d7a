import { read } from "./read.js";

console.log(JSON.stringify(await read(process.env.GATEWAY_URL, process.env.GATEWAY_KEY)));
