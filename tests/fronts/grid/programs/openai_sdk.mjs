import OpenAI from "openai";
import { FUNCTION, KEY, SCHEMA, URL as PLACE, chats, user } from "./tell.mjs";

const client = new OpenAI({ baseURL: `${PLACE}/v1`, apiKey: KEY });
const ask = async (messages, options = {}) =>
  (await client.chat.completions.create({ model: "desk", messages, ...options })).choices[0].message.content;
const form = { type: "json_schema", json_schema: { name: "weather", schema: SCHEMA } };
await chats(
  ask,
  async (messages) => {
    let text = "";
    for await (const one of await client.chat.completions.create({ model: "desk", messages, stream: true })) {
      text += one.choices[0].delta.content ?? "";
    }
    return text;
  },
  (text) => ask([user(text)], { response_format: form }),
  (text) => ask([user(text)], { tools: [FUNCTION] }));
