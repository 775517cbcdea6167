// A client made with the TypeScript SDK 1.x that runs tools as tasks, by the SDK's own means.
// Its steps are [{tool, arguments}, …]: the first is seen through to its end, the second is cancelled.
// It prints one JSON object with what it saw.

import { elicitationAnswer, readTask, transportTo } from './steps.mjs'

const sdk = '@modelcontextprotocol/sdk'
const { Client } = await import(`${sdk}/client/index.js`)
const { StdioClientTransport } = await import(`${sdk}/client/stdio.js`)
const { StreamableHTTPClientTransport } = await import(`${sdk}/client/streamableHttp.js`)
const { CallToolResultSchema, ElicitRequestSchema, TaskStatusNotificationSchema } = await import(
  `${sdk}/types.js`
)

const task = await readTask()
const [first, second] = task.steps
const client = new Client(
  { name: 'ts1', version: '1' }, { capabilities: { elicitation: { form: {} } } },
)
const saw = { asked: [], notified: [], stages: [], progress: [] }
client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
  saw.asked.push(params)
  return elicitationAnswer(params)
})
client.setNotificationHandler(TaskStatusNotificationSchema, ({ params }) => {
  saw.notified.push(params)
})
const transports = { http: StreamableHTTPClientTransport, stdio: StdioClientTransport }
await client.connect(transportTo(task, transports))
saw.declared = client.getServerCapabilities().tasks
// The SDK looks there which tools are tasks.
saw.supports = Object.fromEntries(
  (await client.listTools()).tools.map(({ name, execution }) => [name, execution?.taskSupport]),
)

const { tasks } = client.experimental
const named = ({ tool, arguments: given }) => ({ name: tool, arguments: given })
const wish = { task: { ttl: 60_000 }, onprogress: ({ progress }) => saw.progress.push(progress) }
for await (const message of tasks.callToolStream(named(first), CallToolResultSchema, wish)) {
  saw.stages.push(message.type === 'taskStatus' ? message.task.status : message.type)
  if (message.type === 'taskCreated') saw.created = message.task
  if (message.type === 'result') saw.result = message.result
  if (message.type === 'error') saw.error = message.error.message
}
saw.again = await tasks.getTaskResult(saw.created.taskId, CallToolResultSchema)

for await (const message of tasks.callToolStream(named(second), CallToolResultSchema, wish)) {
  if (message.type !== 'taskCreated') continue
  saw.cancelled = await tasks.cancelTask(message.task.taskId)
  break
}
saw.listed = (await tasks.listTasks()).tasks
await client.close()
process.stdout.write(JSON.stringify(saw))
