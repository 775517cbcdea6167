// A client made with the TypeScript SDK 2.x, which speaks both eras.
//
// --mode auto asks the server which it speaks (on stdio it starts the command a second time to
// do so), --mode legacy shakes hands without asking, and a revision as the mode insists on it.
// The steps are the same in both eras; what an era lacks is done in its own way, see
// tests/real/rig.py.

import { Client, SSEClientTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import {
  CAPABILITIES, ROOTS, SAMPLE, Report, converse, elicitationAnswer, readTask, transportTo,
} from './steps.mjs'

const LOG_LEVEL = 'io.modelcontextprotocol/logLevel'

class Conversation {
  constructor(client, report) {
    this.client = client
    this.report = report
    this.modern = client.getProtocolEra() === 'modern'
  }

  async list({ what }) {
    // Without a cursor this SDK walks all pages by itself.
    const [verb, key] = {
      tools: ['listTools', 'tools'],
      prompts: ['listPrompts', 'prompts'],
      resources: ['listResources', 'resources'],
      templates: ['listResourceTemplates', 'resourceTemplates'],
    }[what]
    const items = (await this.client[verb]())[key]
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
    if (this.level) params._meta = { [LOG_LEVEL]: this.level }
    try {
      this.#result(await this.client.callTool(params, options))
    } catch (error) {
      if (!stop.signal.aborted) throw error
      this.report.saw('cancelled')
    }
  }

  async read({ uri }) {
    this.#result(await this.client.readResource({ uri }))
  }

  async subscribe({ uri }) {
    if (this.modern) await this.#open({ resourceSubscriptions: [uri] })
    else this.#result(await this.client.subscribeResource({ uri }))
  }

  async listen() {
    const filter = {
      toolsListChanged: true,
      promptsListChanged: true,
      resourcesListChanged: true,
    }
    if (this.modern) await this.#open(filter)
    else this.#result({})
  }

  async #open(filter) {
    this.#result((await this.client.listen(filter)).honoredFilter)
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
    if (this.modern) this.level = level
    this.#result(this.modern ? {} : await this.client.setLoggingLevel(level))
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
const mode = ['auto', 'legacy'].includes(task.mode) ? task.mode : { pin: task.mode }
const client = new Client(
  { name: 'ts2', version: '1' },
  { capabilities: CAPABILITIES, versionNegotiation: { mode } },
)

client.setRequestHandler('sampling/createMessage', ({ method, params }) => {
  report.saw('asked', { method, params })
  return SAMPLE
})
client.setRequestHandler('elicitation/create', ({ method, params }) => {
  report.saw('asked', { method, params })
  return elicitationAnswer(params)
})
client.setRequestHandler('roots/list', ({ method }) => {
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
await client.connect(transport)
report.saw('connected', {
  protocolVersion: client.getNegotiatedProtocolVersion(),
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
