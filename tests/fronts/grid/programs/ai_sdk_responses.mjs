import { createOpenAI } from "@ai-sdk/openai";
import { generateObject, generateText, jsonSchema, streamText, tool } from "ai";
import { KEY, SCHEMA, URL as PLACE, chats } from "./tell.mjs";

const model = createOpenAI({ baseURL: `${PLACE}/v1`, apiKey: KEY }).responses("desk");
const f = tool({ description: "d", inputSchema: jsonSchema({ type: "object", properties: {} }) });
await chats(
  async (messages) => (await generateText({ model, messages, maxRetries: 0 })).text,
  async (messages) => {
    let text = "";
    for await (const one of streamText({ model, messages, maxRetries: 0 }).textStream) text += one;
    return text;
  },
  async (prompt) => (await generateObject({ model, prompt, schema: jsonSchema(SCHEMA), maxRetries: 0 })).object,
  async (prompt) => (await generateText({ model, prompt, tools: { f }, maxRetries: 0 })).text);
