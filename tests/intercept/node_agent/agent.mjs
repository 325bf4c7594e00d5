// An order-status agent on the openai npm package: node agent.mjs QUESTION [stream] prints its last words.
import { appendFileSync } from "node:fs";
import OpenAI from "openai";

const prompt = process.env.AGENT_PROMPT ?? "You help customers. Be brief.";
const client = new OpenAI({ maxRetries: 2 });

const tools = [
  {
    type: "function",
    function: {
      name: "lookup_order",
      parameters: { type: "object", properties: { order_id: { type: "string" } } },
    },
  },
];

function lookupOrder({ order_id }) {
  appendFileSync("ledger.txt", `node lookup ${order_id}\n`);
  return { order: order_id, status: "late" };
}

async function whole(messages) {
  const reply = await client.chat.completions.create({ model: "m-1", messages, tools });
  return reply.choices[0].message;
}

async function streamed(messages) {
  const running = client.chat.completions.stream({ model: "m-1", messages, tools });
  return (await running.finalChatCompletion()).choices[0].message;
}

const [question, how] = process.argv.slice(2);
const ask = how === "stream" ? streamed : whole;
const messages = [
  { role: "system", content: prompt },
  { role: "user", content: question },
];
for (;;) {
  const { role, content, tool_calls } = await ask(messages);
  if (!tool_calls?.length) {
    console.log(content);
    break;
  }
  messages.push({ role, content, tool_calls });
  for (const call of tool_calls) {
    const result = lookupOrder(JSON.parse(call.function.arguments));
    messages.push({ role: "tool", tool_call_id: call.id, content: JSON.stringify(result) });
  }
}
