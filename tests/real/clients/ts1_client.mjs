// A client made with the TypeScript SDK 1.x: a handshake, then a session.
// It only obeys steps and tells what it saw; see tests/real/rig.py for both. It runs on every 1.x,
// the package of which is in MCP_SDK, and declares and does what that one can.

import { EventSource } from 'eventsource'
import {
  CAPABILITIES, ROOTS, SAMPLE, Report, converse, elicitationAnswer, readTask, transportTo,
} from './steps.mjs'

const sdk = process.env.MCP_SDK
const { Client } = await import(`${sdk}/client/index.js`)
const { SSEClientTransport } = await import(`${sdk}/client/sse.js`)
const { StdioClientTransport } = await import(`${sdk}/client/stdio.js`)
// It came with 1.10.
const { StreamableHTTPClientTransport } = await import(`${sdk}/client/streamableHttp.js`).catch(() => ({}))
const { CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema } = await import(
  `${sdk}/types.js`
)
// What Node.js lacked when the first SDKs came, and they said so.
globalThis.EventSource ??= EventSource

class Conversation {
  constructor(client, report) {
    this.client = client
    this.report = report
  }

  async list({ what }) {
    const [verb, key] = {
      tools: ['listTools', 'tools'],
      prompts: ['listPrompts', 'prompts'],
      resources: ['listResources', 'resources'],
      templates: ['listResourceTemplates', 'resourceTemplates'],
    }[what]
    const items = []
    let cursor
    do {
      const page = await this.client[verb]({ cursor })
      items.push(...page[key])
      cursor = page.nextCursor
    } while (cursor !== undefined)
    this.report.saw('listed', { what, items })
    return items.map(({ name }) => name)
  }

  async call(step) {
    const stop = new AbortController()
    const onprogress = (progress) => {
      if (stop.signal.aborted) return
      this.report.saw('progress', progress)
      if (step.cancel) stop.abort('canned')
    }
    const options = { signal: stop.signal }
    if (step.progress || step.cancel) options.onprogress = onprogress
    const params = { name: step.name, arguments: step.arguments ?? {} }
    try {
      this.#result(await this.client.callTool(params, undefined, options))
    } catch (error) {
      if (!stop.signal.aborted) throw error
      this.report.saw('cancelled')
    }
  }

  async read({ uri }) {
    this.#result(await this.client.readResource({ uri }))
  }

  async subscribe({ uri }) {
    this.#result(await this.client.subscribeResource({ uri }))
  }

  async listen() {
    this.#result({})
  }

  async prompt(step) {
    this.#result(await this.client.getPrompt({ name: step.name, arguments: step.arguments }))
  }

  async complete({ ref, argument, context }) {
    const params = { ref, argument }
    if (context) params.context = { arguments: context }
    this.#result(await this.client.complete(params))
  }

  async log_level({ level }) {
    this.#result(await this.client.setLoggingLevel(level))
  }

  async wait({ method, uri, tool }) {
    while (await this.report.waitNotification(method, uri)) {
      if (!tool || (await this.list({ what: 'tools' })).includes(tool)) return
    }
  }

  #result(result) {
    this.report.saw('result', { result })
  }
}

const task = await readTask()
const report = new Report()
const { elicitation, ...others } = CAPABILITIES
const capabilities = ElicitRequestSchema ? CAPABILITIES : others
const client = new Client({ name: 'ts1', version: '1' }, { capabilities })

client.setRequestHandler(CreateMessageRequestSchema, ({ method, params }) => {
  report.saw('asked', { method, params })
  return SAMPLE
})
if (ElicitRequestSchema) {
  client.setRequestHandler(ElicitRequestSchema, ({ method, params }) => {
    report.saw('asked', { method, params })
    return elicitationAnswer(params)
  })
}
client.setRequestHandler(ListRootsRequestSchema, ({ method }) => {
  report.saw('asked', { method, params: {} })
  return ROOTS
})
client.fallbackNotificationHandler = async (notification) => report.notified(notification)
client.onerror = (error) => report.saw('fault', { message: error.message })

const transport = transportTo(task, {
  http: StreamableHTTPClientTransport,
  sse: SSEClientTransport,
  stdio: StdioClientTransport,
})
// The client keeps the version to itself.
let protocolVersion
const request = client.request.bind(client)
client.request = async (asked, ...rest) => {
  const result = await request(asked, ...rest)
  if (asked.method === 'initialize') protocolVersion = result.protocolVersion
  return result
}
await client.connect(transport)
report.saw('connected', {
  protocolVersion,
  capabilities: client.getServerCapabilities(),
  serverInfo: client.getServerVersion(),
  instructions: client.getInstructions?.(),
})
await converse(task.steps, new Conversation(client, report), report)
// Closing breaks the streams off, of which the SDK complains. It does not end the session.
client.onerror = undefined
await transport.terminateSession?.()
await client.close()
report.saw('closed')
