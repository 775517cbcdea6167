// A client made with the TypeScript SDK 1.x: a handshake, then a session.
// It only obeys steps and tells what it saw; see tests/real/rig.py for both.

import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
} from '@modelcontextprotocol/sdk/types.js'
import {
  CAPABILITIES, ROOTS, SAMPLE, Report, converse, elicitationAnswer, readTask, transportTo,
} from './steps.mjs'

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

  async wait({ method, uri }) {
    await this.report.waitNotification(method, uri)
  }

  #result(result) {
    this.report.saw('result', { result })
  }
}

const task = await readTask()
const report = new Report()
const client = new Client({ name: 'ts1', version: '1' }, { capabilities: CAPABILITIES })

client.setRequestHandler(CreateMessageRequestSchema, ({ method, params }) => {
  report.saw('asked', { method, params })
  return SAMPLE
})
client.setRequestHandler(ElicitRequestSchema, ({ method, params }) => {
  report.saw('asked', { method, params })
  return elicitationAnswer(params)
})
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
// The client tells the version to its transport and to nobody else.
let protocolVersion
const told = transport.setProtocolVersion?.bind(transport)
transport.setProtocolVersion = (version) => {
  protocolVersion = version
  told?.(version)
}
await client.connect(transport)
report.saw('connected', {
  protocolVersion,
  capabilities: client.getServerCapabilities(),
  serverInfo: client.getServerVersion(),
  instructions: client.getInstructions(),
})
await converse(task.steps, new Conversation(client, report), report)
// Closing breaks the streams off, of which the SDK complains. It does not end the session.
client.onerror = undefined
await transport.terminateSession?.()
await client.close()
report.saw('closed')
