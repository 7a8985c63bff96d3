// As tell.py, for programs in JavaScript.

export const URL = process.argv[2];
export const KEY = "none";
export const TOOL = "ask_desk";
export const SCHEMA = {
  type: "object", properties: { degrees: { type: "number" } }, required: ["degrees"], additionalProperties: false,
};
export const FUNCTION = { type: "function", function: { name: "f", parameters: { type: "object", properties: {} } } };

export const user = (content) => ({ role: "user", content });

export async function told(feature, work) {
  let answer;
  try {
    const found = await work();
    answer = typeof found === "string" ? found : JSON.stringify(found);
  } catch (error) {
    answer = `${error.name}: ${error.message}`;
  }
  console.log(JSON.stringify([feature, String(answer).slice(0, 2000)]));
}

export async function mcp(names, call) {
  await told("tools", names);
  await told("call", () => call({ message: "hello" }));
  await told("data", () => call({ message: "data" }));
  await told("arguments", () => call({ message: "hello", data: null, toolCallId: "x" }));
  await told("conversation", async () => {
    const said = JSON.stringify(await call({ message: "turn" }));
    const found = /conversation=([0-9a-f]{32})/.exec(said); // a client without a session is told
    return call(found ? { message: "turn", conversation: found[1] } : { message: "turn" });
  });
  await told("question", async () => {
    const asked = JSON.stringify(await call({ message: "ask" }));
    const found = /task=([\w-]+)/.exec(asked);
    return found ? call({ message: "red", task: found[1] }) : asked;
  });
  await told("failure", () => call({ message: "fail" }));
}

export async function chats(ask, stream, structured, tools) {
  await told("chat", () => ask([user("hello")]));
  await told("stream", () => stream([user("hello")]));
  await told("conversation", async () => {
    const said = await ask([user("turn")]);
    return ask([user("turn"), { role: "assistant", content: said }, user("turn")]);
  });
  await told("structured", () => structured("data"));
  await told("failure", () => ask([user("fail")]));
  await told("tools", () => tools("hello"));
}
